// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A shell that has started helpers executes mcpscope. They are its children, and not the server's. The orphan of one is
// re-parented to the launcher. `exec mcpscope run -- … 2> >(log)` is such a shell.
func TestChildrenOfTheShellBefore(t *testing.T) {
	t.Parallel()
	const shell = `sh -c 'sleep 1000 & echo orphan $!; read line' <"$0" & sleep 1000 & echo helper $!; exec "$@"`
	ends := map[string]func(*escape.Client){
		"stdin": func(c *escape.Client) { c.Tell("close") },
		"TERM":  func(c *escape.Client) { c.Server.Signal(unix.SIGTERM) },
		"kill":  func(c *escape.Client) { c.Server.Signal(unix.SIGKILL) },
	}
	for _, flags := range []string{"--backend cgroup", "--backend cgroup --verbose", "--backend tree"} {
		for end, do := range ends {
			t.Run(flags+"/"+end, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				m := escape.NewMembers(t)
				name := t.TempDir() + "/fifo"
				if err := unix.Mkfifo(name, 0o600); err != nil {
					t.Fatal(err)
				}
				fifo, err := os.OpenFile(name, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				line := append([]string{"sh", "-c", shell, name, binaries.mcpscope, "run", "--name", "server",
					"--eof-grace", soon, "--term-grace", soon}, strings.Fields(flags)...)
				line = append(line, "--", binaries.Zoo, "--register", m.Address, "setsid")
				c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
				var bystanders []*escape.Process
				for _, who := range []string{"helper", "orphan"} {
					bystanders = append(bystanders, announced(t, c, who))
				}
				if err := m.UntilReady(escape.Patience); err != nil {
					t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
				}
				fifo.Close() // the helper exits, and leaves its orphan
				do(c)
				m.WantDead(t)
				escape.WantEnded(t, c.Server)
				for _, b := range bystanders {
					if b.Ended(0) {
						t.Errorf("a bystander is dead: %d", b.PID)
					}
					b.Signal(unix.SIGKILL)
				}
			})
		}
	}
}

// In a pid namespace with the /proc of another one the numbers there are other processes. There nothing starts.
func TestForeignProc(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, backend := range []string{"auto", "cgroup", "tree"} {
		o := w.run(w.Command("unshare", "--pid", "--fork", binaries.mcpscope, "run", "--backend", backend, "--name", "server", "--", "echo", "up"))
		const hint = "hint: mount -t proc proc /proc (bwrap: --proc /proc, unshare: --mount-proc)"
		if o.Status.ExitStatus() != 125 || o.Stdout != "" || !strings.Contains(o.Stderr, hint) {
			t.Errorf("%s: %v, %q, %q", backend, o.Status, o.Stdout, o.Stderr)
		}
	}
	w.clean()
}

// announced is a process that has written its pid.
func announced(t *testing.T, c *escape.Client, who string) *escape.Process {
	t.Helper()
	pid, err := strconv.Atoi(c.Expect("out " + who + " "))
	if err != nil {
		t.Fatal(err)
	}
	p, err := escape.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
