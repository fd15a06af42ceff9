// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// Restart: a client that kills what it has started, and starts it again at once, finds lock and address of the server
// free, also of one that ignores SIGTERM. Below mcpscope the kernel kills the server when the launcher has
// ended, so on a busy machine the second one may come first: that one fails, and another start does not.
func Restart(t *testing.T, s Subject) {
	for _, w := range []way{bare, s.contained("--term-grace", "infinity")} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			site := s.Site(t)
			client := site.Unique("client")
			lock := filepath.Join(escape.OpenDir(t), "lock")
			for round := range 20 {
				tries := 0
				isUp := pace.Eventually(escape.Patience, func() bool {
					tries++
					return startAndKill(t, site, client, w.line(s.Programs.Claim, lock)) == "up"
				})
				if !isUp || w.name == bare.name && tries > 1 {
					t.Fatalf("in round %d a server is not up after %d starts", round, tries)
				}
			}
		})
	}
}

// startAndKill returns the first line of a server, and the status of what was started is there.
func startAndKill(t *testing.T, site *escape.Site, group string, command []string) string {
	t.Helper()
	cmd := site.Command(command...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	site.Start(group, cmd)
	defer killAndReap(cmd)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func killAndReap(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // killed
}
