// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
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
	file, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	for !w.isExplained(main.PID, takenAs) {
		if _, err := file.WriteString(message); err != nil {
			t.Fatal(err)
		}
		escape.PollFor(escape.Patience >> 10)
	}
	_ = file.Close() // the end of the server's stdin
	inner.WantDead(t)
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
