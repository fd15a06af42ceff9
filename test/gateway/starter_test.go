// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// session has a gateway start a program that outlives it, and talks to that as to a gateway.
func (w *world) session(g *Gateway, argv ...string) *Gateway {
	w.T.Helper()
	dir := w.T.TempDir()
	var ends [2]*os.File
	for i, name := range []string{"in", "out"} {
		fifo := filepath.Join(dir, name)
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			w.T.Fatal(err)
		}
		var err error
		if ends[i], err = os.OpenFile(fifo, os.O_RDWR, 0); err != nil {
			w.T.Fatal(err)
		}
	}
	g.Tell("session %s %s %s", filepath.Join(dir, "in"), filepath.Join(dir, "out"), strings.Join(argv, " "))
	g.Expect("session")
	stderr, err := os.Open(os.DevNull)
	if err != nil {
		w.T.Fatal(err)
	}
	return Attach(w.T, ends[0], ends[1], stderr)
}

// serve has a gateway start a server, which is contained and has that gateway for its client.
func (w *world) serve(g *Gateway, name string) *Server {
	w.T.Helper()
	s := g.Born("server", name, binaries.Zoo, "ignore-both")
	if !pace.Eventually(escape.Patience, func() bool {
		path := mustPath(w.T, s.Main.PID)
		return strings.Contains(path, "/mcp.slice/0/mcp-")
	}) {
		w.T.Fatalf("the server %s is not contained", name)
	}
	client := fmt.Sprintf("[%d]", g.PID)
	if !pace.Eventually(escape.Patience, func() bool { return strings.Contains(w.run("ls"), client) }) {
		w.T.Errorf("no server has the client %s: %s", client, w.run("ls"))
	}
	return s
}

// replaceWatcher kills the watcher, and returns when there is another one.
func (w *world) replaceWatcher() {
	w.T.Helper()
	old := w.await(w.watchers)
	old.Signal(unix.SIGKILL)
	if !old.Ended(escape.Patience) {
		w.T.Fatal("the watcher outlived SIGKILL")
	}
	w.await(w.watchers)
}

// A daemon that a gateway leaves, as agents do, is followed: its servers are contained as long as it lives,
// and the gateway's end does not stop them. That is said where people look.
func TestDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo")
	own := w.serve(g, "own")
	d := w.session(g, binaries.like, "gateway", "run", "--daemon")
	first := w.serve(d, "first")
	g.Own.Signal(unix.SIGKILL)
	own.Gone(t)
	d.Answers("first")
	w.replaceWatcher()
	d.Answers("first")
	second := w.serve(d, "second")
	w.wantNote("goes on without it")
	d.Own.Signal(unix.SIGKILL)
	first.Gone(t)
	second.Gone(t)
	w.clean()
	w.empty(filepath.Join(w.Dir, filepath.Base(g.Group)), "the daemon was killed")
}

// Two gateways with the same command line, each in a session of its own, are no daemons of each other.
func TestTwins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := append([]string{"setsid"}, w.line([]string{binaries.like, "gateway", "run"}, "--match", "zoo")...)
	first := w.start(line)
	second := w.start(line)
	own := w.serve(first, "own")
	kept := w.serve(second, "kept")
	first.Own.Signal(unix.SIGKILL)
	own.Gone(t)
	if !pace.Eventually(escape.Patience, func() bool { return len(w.watchers()) == 1 && len(w.guards()) == 1 }) {
		t.Errorf("watcher and guard of the first one stay: %s", w.notes("ls"))
	}
	second.Answers("kept")
	second.Own.Signal(unix.SIGKILL)
	kept.Gone(t)
	w.clean()
	w.empty(filepath.Join(w.Dir, filepath.Base(second.Group)), "both were killed")
}

// Each gateway below another one is the client of its servers, three deep. The end of the outer one leaves
// those of the inner ones alone.
func TestNested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo")
	own := w.serve(g, "own")
	// by another name: else it would be followed as a daemon
	session := filepath.Join(t.TempDir(), "session")
	if err := os.Link(binaries.like, session); err != nil {
		t.Fatal(err)
	}
	first := w.session(g, binaries.mcpscope, "gateway", "--", session)
	second := w.session(first, binaries.mcpscope, "gateway", "--", session)
	outer := w.serve(first, "outer")
	inner := w.serve(second, "inner")
	g.Own.Signal(unix.SIGKILL)
	own.Gone(t)
	first.Answers("outer")
	second.Answers("inner")
	w.replaceWatcher()
	later := w.serve(second, "later")
	first.Own.Signal(unix.SIGKILL)
	outer.Gone(t)
	second.Answers("inner")
	second.Own.Signal(unix.SIGKILL)
	inner.Gone(t)
	later.Gone(t)
	w.clean()
	w.empty(filepath.Join(w.Dir, filepath.Base(g.Group)), "all gateways were killed")
	if text := escape.Contents(g.Stderr); text != "" {
		t.Errorf("they say on stderr: %s", text)
	}
}

// A gateway that starts below one that has ended, whose watcher waits for the last servers alone, is told that its own
// servers are not contained.
func TestGatewayBelowAnEndedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--except", "true")
	w.serve(g, "held")
	g.Tool("hold held")
	other := filepath.Join(t.TempDir(), "other") // by its own name it would be a daemon
	if err := os.Link(binaries.like, other); err != nil {
		t.Fatal(err)
	}
	left := w.session(g, other)
	g.Own.Signal(unix.SIGKILL)
	explained := func() int {
		text, err := os.ReadFile(w.explain)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	judges := func() bool {
		before := explained()
		left.Tell("written /dev/null true")
		left.Expect("written")
		return explained() > before
	}
	if !pace.Eventually(escape.Patience, func() bool { return !judges() }) {
		t.Fatal("the watcher goes on to judge programs")
	}
	inner := w.session(left, binaries.mcpscope, "gateway", "--", other)
	escape.Contains(t, escape.Contents(g.Stderr), "another program watches what is executed here")
	inner.Own.Signal(unix.SIGKILL)
	left.Own.Signal(unix.SIGKILL)
}
