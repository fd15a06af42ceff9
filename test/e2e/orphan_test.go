// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Stopped guards of trees without a launcher are swept at the same time: each takes the term grace. They are a user's that
// no other test sweeps.
func TestSweepOfManyTrees(t *testing.T) {
	t.Parallel()
	const trees = 12
	w := newWorld(t)
	user := lonely(7)
	program := readable(t, binaries.mcpscope)
	var all []*escape.Members
	var guards, launchers []*escape.Process
	for range trees {
		m := escape.NewMembers(t)
		c := w.NewClient(w.Unique("client"), []string{"--group"}, as(user, program, "run", "--backend", "tree",
			"--name", "server", "--", readable(t, binaries.Zoo), "--register", m.Address, "setsid"))
		if err := m.UntilReady(escape.Patience); err != nil {
			t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
		}
		_, guard := w.find(m)
		escape.AwaitSettled(guard) // the helper that settles a start sweeps
		all = append(all, m)
		guards = append(guards, guard)
		launchers = append(launchers, c.Server)
	}
	for i, launcher := range launchers {
		escape.StopTogether(guards[i], launcher)
		launcher.Signal(unix.SIGKILL)
		launcher.Ended(escape.Patience)
	}
	o := w.run(w.Command(as(user, program, "sweep", "--dry-run")...))
	if n := strings.Count(o.Stdout, "would stop server"); n != trees {
		t.Errorf("%d trees would be swept: %s%s", n, o.Stdout, o.Stderr)
	}
	o = w.run(w.Command(as(user, program, "ls")...))
	if strings.Count(o.Stdout, " orphan ") != trees {
		t.Errorf("ls has not as many orphans: %s", o.Stdout)
	}
	o = w.run(w.Command(as(user, program, "sweep")...))
	if n := strings.Count(o.Stdout, "stopped server"); o.Status != 0 || n != trees {
		t.Errorf("%d trees were swept: status %v, %s%s", n, o.Status, o.Stdout, o.Stderr)
	}
	for _, m := range all {
		m.WantDead(t)
	}
}

// A launcher that ends during its sweep still stops the orphan: no other process would before
// the next start.
func TestNextServerEndsAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := startServer(w, []string{"--group"}, nil, binaries.probe, "--members", "1")
	if err := escape.KillTogether(orphan.guard, orphan.Server); err != nil {
		t.Fatal(err)
	}
	main, _ := orphan.members.Main()
	escape.WantEnded(t, main) // with its launcher
	if n := len(orphan.members.Running()); n != 1 {
		t.Errorf("%d members live without guards, want 1: then this test tests nothing", n)
	}
	next := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	orphan.told(1) // it has a second now
	next.Tell("close")
	if status := next.Status(escape.Patience); status != "exit 0" {
		t.Errorf("the next server ended with %q", status)
	}
	orphan.members.WantDead(t)        // the next server has ended
	w.wantSuccess("sweep", "--quiet") // on a busy machine the directory may be left, empty: a server that ends waits for a second only
	w.clean()
}

// A grace can only shorten that of an orphan, whose members may ignore SIGTERM for ever.
func TestStopOfAnOrphanWithoutEnd(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "2")
	s.stay()
	_, id := s.members.Main()
	if err := escape.KillTogether(s.guard, s.Server); err != nil {
		t.Fatal(err)
	}
	s.world.wantSuccess("stop", "--grace", "infinity", id)
	s.dead()
}

// A launcher makes its directory before it locks and arms it. If it is killed in between, the directory is
// left. A directory of tomorrow is never too old, and one of an hour ago always is.
func TestSweepSparesAFreshDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain").Tell("close") // makes the slice
	fresh := filepath.Join(rootsSlice(w.Site), "mcp-fresh-0234abcd")
	left := filepath.Join(rootsSlice(w.Site), "mcp-left-abcd2345")
	for dir, age := range map[string]time.Duration{fresh: -24 * time.Hour, left: time.Hour} {
		made := time.Now().Add(-age)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chtimes(dir, made, made)); err != nil {
			t.Fatal(err)
		}
	}
	w.wantSuccess("sweep", "--quiet")
	if _, err := os.Stat(fresh); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Errorf("what a launcher has left is there still: %s", escape.Tree(left))
	}
}

// wantSuccess runs mcpscope in a goroutine.
func (w *world) wantSuccess(args ...string) {
	o, err := escape.Finish(w.Dir, w.mcpscope(args...))
	if err != nil || o.Status != 0 || o.Stderr != "" {
		w.T.Errorf("%v ended with %v, %v; stderr: %s", args, o.Status, err, o.Stderr)
	}
}

// A sweep in another pid namespace sees neither launcher nor guard: that makes no orphan.
func TestSweepFromAnotherPidNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	if o := w.run(w.Command("unshare", "--pid", "--fork", "--mount-proc", binaries.mcpscope, "sweep")); o.Status != 0 {
		t.Fatalf("sweep ended with %v; stderr: %s", o.Status, o.Stderr)
	}
	if !live.Lives("still there?") {
		t.Error("the sweep hit a live server")
	}
	live.Tell("close")
	live.dead()
}
