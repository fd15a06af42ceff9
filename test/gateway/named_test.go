// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A developer of servers runs programs all day that only their names say to be servers: mcp_report.py in a
// pipeline, build-mcp.sh, mcp-cli.

// named returns a program of the zoo that has mcp as a word in its name.
func (w *world) named(name string) string {
	w.T.Helper()
	file := filepath.Join(w.T.TempDir(), name)
	if err := os.Symlink(binaries.Zoo, file); err != nil {
		w.T.Fatal(err)
	}
	return file
}

// converse has a client write messages until mcpscope has seen one: a program that waits for its input may be
// faster than mcpscope, again and again.
func (w *world) converse(g *Gateway, name string, pid int) {
	w.T.Helper()
	for !w.isExplained(pid, takenAs) {
		g.Tell("hello %s", name)
		g.Answers(name)
	}
}

// isExplained reports whether mcpscope has explained something about a program.
func (w *world) isExplained(pid int, what string) bool {
	w.T.Helper()
	text, err := os.ReadFile(w.explain)
	if err != nil {
		w.T.Fatal(err)
	}
	return explains(string(text), pid, what)
}

func explains(text string, pid int, what string) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[1] == strconv.Itoa(pid) && strings.Contains(line, what) {
			return true
		}
	}
	return false
}

// explained waits until mcpscope has explained something about a program.
func (w *world) explained(pid int, what string) {
	w.T.Helper()
	err := escape.AwaitText(w.explain, escape.Patience, func(text string) bool { return explains(text, pid, what) })
	if err != nil {
		w.T.Fatalf("%d was not explained with %q: %v", pid, what, err)
	}
}

// Nothing stops a program for its name: neither the end of its stdin, nor that of its main process, a command
// for all servers, a sweep, or the end of the gateway.
func TestNameProvesNothing(t *testing.T) {
	for _, kind := range []string{"pipes", "sockets"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway()
			g.Uses(kind)
			piped := g.Born("quiet", "piped", w.named("mcp_report"), "ignore-eof")
			w.explained(piped.Main.PID, "placed in")
			parent := g.Born("quiet", "parent", w.named("build-mcp"), "setsid")
			w.explained(parent.Main.PID, "placed in")
			before := len(piped.Running()) + len(parent.Running())
			if out := w.run("ls"); strings.Contains(out, "mcp_report") || strings.Contains(out, "build-mcp") {
				t.Errorf("ls has a program that is not known to be a server: %s", out)
			}
			w.run("stop", "--all", "--yes")
			w.run("sweep")
			g.Tell("close piped")
			w.explained(piped.Main.PID, "left: its stdin was closed")
			if path := mustPath(t, piped.Main.PID); path != mustPath(t, g.PID) {
				t.Errorf("a program that is no server is in %s, and not with the gateway", path)
			}
			parent.Main.Signal(unix.SIGKILL)
			w.explained(parent.Main.PID, "left: it has ended")
			watcher := g.Watcher()
			g.Own.Signal(unix.SIGKILL)
			if !watcher.Ended(escape.Patience) {
				t.Error("the watcher outlives its gateway")
			}
			if after := len(piped.Running()) + len(parent.Running()); after != before-1 {
				t.Errorf("%d processes live, want %d", after, before-1)
			}
			w.clean()
		})
	}
}

// A program with such a name is a server as soon as its client has written MCP to it, and at the end of the
// gateway if that held its stdin until then. That holds for the next watcher, too.
func TestProof(t *testing.T) {
	for _, kind := range []string{"pipes", "sockets"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway()
			g.Uses(kind)
			spoken := g.Born("quiet", "spoken", w.named("spoken-mcp"), "ignore-both")
			w.explained(spoken.Main.PID, "placed in")
			w.converse(g, "spoken", spoken.Main.PID)
			g.Tell("close spoken")
			spoken.Gone(t)
			silent := g.Born("quiet", "silent", w.named("silent-mcp"), "ignore-both")
			w.explained(silent.Main.PID, "placed in")
			late := g.Born("quiet", "late", w.named("late-mcp"), "ignore-both")
			w.explained(late.Main.PID, "placed in")
			w.kill(w.watchers)
			w.await(w.watchers)
			w.converse(g, "late", late.Main.PID)
			g.Own.Signal(unix.SIGKILL)
			silent.Gone(t)
			late.Gone(t)
			w.clean()
		})
	}
}

// script writes a program that is executed by a shell.
func (w *world) script(name, text string) string {
	w.T.Helper()
	file := filepath.Join(w.T.TempDir(), name)
	if err := escape.WriteProgram(file, "#!/bin/sh\n"+text+"\n"); err != nil {
		w.T.Fatal(err)
	}
	return file
}

// fifo makes a FIFO.
func (w *world) fifo() string {
	w.T.Helper()
	file := filepath.Join(w.T.TempDir(), "fifo")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		w.T.Fatal(err)
	}
	return file
}

// A script that starts a server is one server with it, whatever commands of mcpscope it has run before.
func TestScriptOfAServer(t *testing.T) {
	for name, text := range map[string]string{
		"starts it":             `"$@"; exit`,
		"executes it":           `exec "$@"`,
		"runs a command before": binaries.mcpscope + ` sweep >/dev/null 2>&1; exec "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway()
			s := g.Born("quiet", "one", w.script("start", text)+" "+w.named("one-mcp"), "setsid")
			g.Tell("hello one")
			for !strings.Contains(w.run("ls"), "one-mcp") {
				g.Tell("hello one")
				g.Answers("one")
			}
			if n := strings.Count(w.run("ls", "--json"), `"id": `); n != 1 {
				t.Errorf("%d servers, want one", n)
			}
			w.contained(s)
			g.Own.Signal(unix.SIGKILL)
			s.Gone(t)
			w.clean()
		})
	}
}

// A server below a program whose name alone says that it is one is watched by itself.
func TestServerBelowANamedProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	fifo := w.fifo()
	// the hub writes to its server what a test writes to the FIFO
	hub := w.script("mcp-hub", `bash -c 'coproc S { exec "$@"; }; cat <"$0" >&${S[1]}' "$@"`)
	inner := escape.NewMembers(t)
	t.Cleanup(inner.Kill)
	g.Tell("quiet hub %s %s %s --register %s ignore-both", hub, fifo, w.named("inner-mcp"), inner.Address)
	g.Expect("server hub")
	if err := inner.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	main, _ := inner.Main()
	closeInput := w.writeUntil(fifo, func() bool { return w.isExplained(main.PID, takenAs) })
	closeInput() // the end of the server's stdin
	inner.WantDead(t)
}

// writeUntil writes messages to a FIFO until a condition is true. The end of its own side is for the caller.
func (w *world) writeUntil(fifo string, isTrue func() bool) (closeInput func()) {
	w.T.Helper()
	file, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	closeInput = func() { _ = file.Close() } // once more, at the end of the test
	w.T.Cleanup(closeInput)
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	isWritten := pace.Eventually(escape.Patience, func() bool {
		if isTrue() {
			return true
		}
		if _, err := file.WriteString(message); err != nil {
			w.T.Fatal(err)
		}
		return false
	})
	if !isWritten {
		w.T.Fatal("nothing comes of the messages")
	}
	return closeInput
}

// hub starts a program of the zoo by pipes, and writes to it what a test writes to a FIFO. prepare is a command of bash
// that runs in between.
func (w *world) hub(g *Gateway, fifo, program, prepare string) *escape.Members {
	w.T.Helper()
	// bash closes copies of these descriptors when it executes another program
	const line = `exec bash -c 'fifo=$0; coproc S { exec "$@"; }
exec 7>/proc/self/fd/${S[1]} 8</proc/self/fd/${S[0]}; %s; cat <"$fifo" >&7' "$@"`
	inner := escape.NewMembers(w.T)
	w.T.Cleanup(inner.Kill)
	g.Tell("quiet hub %s %s %s --register %s ignore-eof",
		w.script("hub", fmt.Sprintf(line, prepare)), fifo, program, inner.Address)
	return inner
}

// A program that a server has started before it was recognized is part of that, also if it has got a group for its
// name, or if its client writes MCP to it later.
func TestChildOfAServer(t *testing.T) {
	for name, isNamed := range map[string]bool{"helper-mcp": true, "helper": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway()
			fifo := w.fifo()
			inner := w.hub(g, fifo, w.named(name), ":")
			var hub int
			if _, err := fmt.Sscan(g.Expect("server hub"), &hub); err != nil {
				t.Fatal(err)
			}
			if err := inner.UntilReady(escape.Patience); err != nil {
				t.Fatal(err)
			}
			main, _ := inner.Main()
			if isNamed {
				w.explained(main.PID, "placed in")
			}
			before := mustPath(t, main.PID)
			g.Tell("hello hub")
			w.explained(hub, takenAs)
			whole := mustPath(t, hub)
			if isNamed {
				group := filepath.Join(w.slice(), filepath.Base(before))
				if err := escape.AwaitRemoval(group, escape.Patience); err != nil {
					t.Errorf("the group of a part of the server: %v", err)
				}
			} else {
				w.writeUntil(fifo, func() bool { return w.isExplained(main.PID, "") })
			}
			if path := mustPath(t, main.PID); path != whole {
				t.Errorf("it is in %s, and the server that has started it in %s", path, whole)
			}
			g.Own.Signal(unix.SIGKILL)
			inner.WantDead(t)
			w.clean()
		})
	}
}

// A server is watched by itself below a program that has a group for its name alone, also if it was there before.
func TestServerBelowAProgramThatIsPlacedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	fifo := w.fifo()
	build := w.script("build-mcp", `cat <"$1" >&7`)
	prepare := `until grep -q /mcp- /proc/$S_PID/cgroup; do sleep 0.01; done; exec ` + build + ` "$fifo"`
	inner := w.hub(g, fifo, w.named("helper-mcp"), prepare)
	var hub int
	if _, err := fmt.Sscan(g.Expect("server hub"), &hub); err != nil {
		t.Fatal(err)
	}
	if err := inner.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	main, _ := inner.Main()
	w.explained(hub, "placed in")
	closeInput := w.writeUntil(fifo, func() bool { return w.isExplained(main.PID, takenAs) })
	closeInput() // the end of the server's stdin
	main.Signal(unix.SIGKILL)
	w.clean()
}

// A program that a tool has put into a cgroup of its own stays there, whatever it is called.
func TestNameMovesNothingOutOfItsGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	job := w.Unique("job")
	enter := w.script("enter", `echo $$ >"$1"/cgroup.procs; shift; exec "$@"`)
	s := g.Born("quiet", "build", enter+" "+w.Seen(job)+" "+w.named("build-mcp"), "plain")
	g.Tell("close build")
	w.explained(s.Main.PID, "left: ")
	if text, err := os.ReadFile(w.explain); err != nil || strings.Contains(string(text), "placed in") {
		t.Errorf("it was placed: %s (%v)", text, err)
	}
}
