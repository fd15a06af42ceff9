// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Full: a command whose output can't be written fails, and says why; one whose reader has gone ends
// without a message.
func Full(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		reader, broken, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer broken.Close()
		reader.Close()
		server := g.plain()
		for _, line := range []string{
			"ls", "ls -q", "ls --json", "ls --format {{.Name}}", "inspect ID", "inspect ID --json", "metrics", "help", "version", "freeze ID", "thaw ID", "doctor", "doctor --json", "stop ID",
		} {
			args := strings.Fields(strings.ReplaceAll(line, "ID", server.id))
			if o := g.printTo(broken, args...); o.Status == 0 || o.Stderr != "" {
				t.Errorf("%s into a broken pipe ended with %v; stderr: %s", line, o.Status, o.Stderr)
			}
			if args[0] == "stop" {
				server = g.plain()
				args[1] = server.id
			}
			if o := g.printTo(full, args...); o.Status.ExitStatus() <= 0 || !strings.Contains(o.Stderr, "no space left on device") {
				t.Errorf("%s >/dev/full ended with %v; stderr: %s", line, o.Status, o.Stderr)
			}
		}
		if left := server.members.Running(); len(left) > 0 {
			t.Errorf("stop could not print, and left %q", left)
		}
	})
}

// printTo runs mcpscope with another stdout.
func (g *ground) printTo(out *os.File, args ...string) escape.Outcome {
	g.T.Helper()
	cmd := g.Command(append([]string{"sh", "-c", `exec "$@" >&3`, "sh", g.Program}, args...)...)
	cmd.ExtraFiles = []*os.File{out}
	o, err := escape.Finish(g.Unique("operator"), cmd)
	if err != nil {
		g.T.Fatal(err)
	}
	return o
}
