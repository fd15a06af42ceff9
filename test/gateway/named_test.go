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
			if kind == "sockets" {
				g.Tell("sockets")
				g.Expect("sockets")
			}
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
			if kind == "sockets" {
				g.Tell("sockets")
				g.Expect("sockets")
			}
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
