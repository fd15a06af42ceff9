// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// lateEnv is the number of servers of each runtime that TestLate starts for each client.
const lateEnv = "TESTS_LATE"

const (
	lateBatch = 20  // servers at a time
	latePause = 100 // ms between two calls of a tool, on the average
)

// Servers that no rule knows, and that wait for their input when their client speaks for the first time, are
// recognized by a message that they have not read yet, or by an answer. This counts the missed ones.
func TestLate(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv(lateEnv)) // 0 for none
	if n == 0 {
		t.Skip("it measures a rate, for minutes: " + lateEnv + "=100")
	}
	dir := lateDir(t)
	program := func(name string) string { return filepath.Join(dir, name) }
	servers := []struct {
		name    string
		command []string
	}{
		{"Node", []string{"node", program("server.mjs")}},
		{"Python", []string{"python3", program("server.py")}},
		{"Go", []string{binaries.late, "server"}},
	}
	clients := []struct {
		name    string
		command []string
	}{
		{"Go, pipes", []string{binaries.late, "client", "pipes"}},
		{"Go, sockets", []string{binaries.late, "client", "sockets"}},
		{"Python, pipes", []string{"python3", program("client.py")}},
		{"Node, sockets", []string{"node", program("client.mjs")}},
		{
			"Node, sockets, below a shell",
			[]string{"sh", "-c", `"$@"; :`, "sh", "node", program("client.mjs")},
		},
	}
	for _, on := range []struct {
		name   string
		busy   bool
		before []string // mcpscope gateway
	}{
		{name: "quiet"},
		{name: "busy", busy: true},
		{name: "unprivileged", before: []string{"setpriv", "--bounding-set", "-sys_nice", "--"}},
	} {
		for _, c := range clients {
			for _, s := range servers {
				t.Run(fmt.Sprintf("%s/%s/%s", on.name, c.name, s.name), func(t *testing.T) {
					if on.busy {
						occupy(t, 2)
					}
					var sum lateCount
					for sum.servers < n {
						sum.add(runLate(t, min(lateBatch, n-sum.servers), on.before, c.command, s.command))
					}
					t.Logf("LATE %-12s %-28s %-6s: %v", on.name, c.name, s.name, sum)
					if missed := sum.servers - sum.taken(); missed > n/100 {
						t.Errorf("%d of %d are missed", missed, n)
					}
				})
			}
		}
	}
}

// lateDir has the programs that are no binaries, and the SDK beside them.
func lateDir(t *testing.T) string {
	t.Helper()
	sdk := filepath.Join(escape.Clients(t, "node"), "node", "node_modules")
	dir := t.TempDir()
	for _, name := range []string{"client.mjs", "client.py", "server.mjs", "server.py"} {
		text, err := os.ReadFile(filepath.Join("late", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(sdk, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// occupy keeps processors busy until the end of the test.
func occupy(t *testing.T, n int) {
	t.Helper()
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it runs
			_ = cmd.Wait()         // killed
		})
	}
}

// lateCount counts servers by the message that showed them.
type lateCount struct{ servers, initialize, list, call int }

func (c lateCount) taken() int { return c.initialize + c.list + c.call }

func (c *lateCount) add(o lateCount) {
	c.servers += o.servers
	c.initialize += o.initialize
	c.list += o.list
	c.call += o.call
}

func (c lateCount) String() string {
	return fmt.Sprintf("missed of %d: %d after initialize, %d after tools/list, %d after all",
		c.servers, c.servers-c.initialize, c.servers-c.initialize-c.list, c.servers-c.taken())
}

var takenBy = regexp.MustCompile(takenAs + `.* in MCP: (.*)|` + takenAs + `.* MCP: (.*)`)

// runLate has a gateway conduct a session with n servers.
func runLate(t *testing.T, n int, before, client, server []string) (c lateCount) {
	t.Helper()
	w := newWorld(t)
	line := append(slices.Clone(client), fmt.Sprint(n), fmt.Sprint(latePause), t.TempDir())
	cmd := w.Command(slices.Concat(before, w.line(append(line, server...)))...)
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	stderr := escape.MemoryFile(t)
	cmd.Stderr = stderr
	group := w.Unique("gateway")
	in, out := escape.StartPiped(t, cmd, func() error { return escape.StartIn(group, cmd) })
	said := make([]byte, len("done\n"))
	_, err := io.ReadFull(out, said)
	if err != nil || string(said) != "done\n" {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed, or it has failed
		t.Fatalf("the client says %q (%v), and on stderr: %s", said, err, escape.Contents(stderr))
	}
	text, err := os.ReadFile(w.explain)
	if err != nil {
		t.Error(err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the client: %v: %s", err, escape.Contents(stderr))
	}
	c.servers = n
	for line := range strings.SplitSeq(string(text), "\n") {
		by := takenBy.FindStringSubmatch(line)
		if by == nil {
			continue
		}
		switch message := by[1] + by[2]; {
		case strings.HasPrefix(message, "initialize"):
			c.initialize++
		case strings.HasPrefix(message, "notifications/initialized"), message == "tools/list":
			c.list++
		default:
			c.call++
		}
	}
	w.clean()
	if c.taken() < n {
		t.Logf("explained:\n%s", text)
	}
	return c
}
