package e2e

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// An orphan is a group whose launcher and supervisor were killed at once.
func startOrphan(t *testing.T, w *world) *server {
	t.Helper()
	s := startServer(w, []string{"--group"}, nil, binaries.zoo, "ignore-both")
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // stopped first: neither can act on the other's end
		s.client.server.signal(sig)
		s.supervisor.signal(sig)
	}
	if !s.client.server.ended(patience) || !s.supervisor.ended(patience) {
		t.Fatal("launcher or supervisor outlived SIGKILL")
	}
	if n := len(s.members.running()); n != 1 {
		t.Errorf("%d members live without guards, want 1: then this test tests nothing", n)
	}
	return s
}

func (w *world) sweep() {
	w.t.Helper()
	if o := w.run(w.mcpscope("sweep")); o.status != 0 || o.stderr != "" {
		w.t.Errorf("sweep ended with %v; stderr: %s", o.status, o.stderr)
	}
}

func TestSweepEndsAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live := startServer(w, []string{"--group"}, nil, binaries.zoo, "plain")
	orphan := startOrphan(t, w)
	w.sweep()
	if left := orphan.members.running(); len(left) > 0 {
		t.Errorf("sweep returned before they were dead: %q", left)
	}
	if !live.lives("still there?") {
		t.Error("the sweep hit a live server")
	}
	live.tell("close")
	live.dead(patience)
}

func TestNextServerEndsAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := startOrphan(t, w)
	next := startServer(w, []string{"--group"}, nil, binaries.zoo, "plain")
	if n := orphan.members.untilDead(patience); n > 0 {
		t.Errorf("%d members left", n)
	}
	if !next.lives("still there?") {
		t.Error("the next server does not answer")
	}
	next.tell("close")
	next.dead(patience)
}

// A supervisor that is stopped holds its lock and would never act.
func TestSweepContinuesAStoppedSupervisorWithoutLauncher(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, nil, binaries.zoo, "ignore-both")
	s.supervisor.signal(unix.SIGSTOP)
	s.client.server.signal(unix.SIGKILL)
	if !s.client.server.ended(patience) {
		t.Fatal("the launcher outlived SIGKILL")
	}
	w.sweep()
	s.dead(patience)
}

// A start makes its directory before it has it locked and armed.
func TestSweepSparesAFreshDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	startServer(w, []string{"--group"}, nil, binaries.zoo, "plain").tell("close") // makes the slice
	fresh := filepath.Join(w.dir, "mcp.slice", "0", "mcp-fresh-0123abcd")
	if err := os.MkdirAll(filepath.Join(fresh, "payload"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	if _, err := os.Stat(filepath.Join(fresh, "payload")); err != nil {
		t.Error(err)
	}
}

func TestSweepsDoNotTouchALiveServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, nil, binaries.probe, "--members", "2")
	for range 50 {
		w.sweep()
	}
	if !s.lives("still there?") {
		t.Error("the server does not answer")
	}
	s.wantAsked(0, 0)
	s.tell("write exit 0")
	s.dead(patience)
}

// Starts and sweeps meet in every order; no start is lost.
func TestSweepersBesideStarts(t *testing.T) {
	t.Parallel()
	const lanes, starts = 4, 500
	defer slots.take(lanes)()
	w := newWorld(t)
	ended := make(chan struct{})
	var starters, sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for !closed(ended) {
				w.wantSuccess("sweep")
			}
		})
	}
	for range lanes {
		starters.Go(func() {
			for range starts {
				w.wantSuccess("run", "--", "true")
			}
		})
	}
	starters.Wait()
	close(ended)
	sweepers.Wait()
	w.clean()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wantSuccess runs mcpscope in a goroutine.
func (w *world) wantSuccess(args ...string) {
	o, err := w.tryRun(w.mcpscope(args...))
	if err != nil || o.status != 0 || o.stderr != "" {
		w.t.Errorf("%v ended with %v, %v; stderr: %s", args, o.status, err, o.stderr)
	}
}

// In another pid namespace neither launcher nor supervisor is to be seen: that does not
// make an orphan.
func TestSweepFromAnotherPidNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live := startServer(w, []string{"--group"}, nil, binaries.zoo, "plain")
	for range 3 {
		if o := w.run(w.command("unshare", "--pid", "--fork", "--mount-proc", binaries.mcpscope, "sweep")); o.status != 0 {
			t.Fatalf("sweep ended with %v; stderr: %s", o.status, o.stderr)
		}
	}
	if !live.lives("still there?") {
		t.Error("the sweep hit a live server")
	}
	live.tell("close")
	live.dead(patience)
}
