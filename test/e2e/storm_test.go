package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// footprint is what a storm of reconnects could leave behind.
type footprint struct {
	processes, groups, dying, descriptors int
}

func (w *world) footprint() footprint {
	w.t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.t.Fatal(err)
	}
	f := footprint{descriptors: len(fds)}
	_ = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			pids, _ := groupPids(path) // it may be gone by now
			f.processes += len(pids)
			f.groups++
		}
		return nil
	})
	stat, err := os.ReadFile(filepath.Join(w.dir, "cgroup.stat"))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(stat)) {
		_, _ = fmt.Sscanf(line, "nr_dying_descendants %d", &f.dying) // the other lines
	}
	return f
}

// TestReconnectStorm runs alone, since it counts this process's descriptors: it is
// the client here. A group that was removed keeps kernel memory for as long as it
// is dying, so those are counted as memory.
func TestReconnectStorm(t *testing.T) {
	w := newWorld(t)
	var early footprint
	for cycle := 1; cycle <= 1000; cycle++ {
		w.reconnect()
		if cycle == 100 {
			early = w.footprint()
		}
	}
	final := w.footprint()
	if final.dying > early.dying+100 {
		t.Errorf("%d groups are dying after 1000 cycles, %d after 100", final.dying, early.dying)
	}
	early.dying, final.dying = 0, 0
	if early != final {
		t.Errorf("after 100 cycles %+v, after 1000 %+v", early, final)
	}
	w.clean()
}

// reconnect starts a server, talks to it, closes its stdin and waits for it.
func (w *world) reconnect() {
	w.t.Helper()
	b := w.newEcho(w.dir, w.mcpscope("run", "--name", "storm", "--", binaries.zoo, "plain"))
	if !b.lives() {
		w.t.Fatal("the server does not answer")
	}
	b.in.Close()
	if err := b.cmd.Wait(); err != nil {
		w.t.Fatal(err)
	}
	b.out.Close()
}

// Many at once, all of one name: all start, half of them end, and the other half
// notices nothing.
func TestManyServersOfOneName(t *testing.T) {
	t.Parallel()
	const servers = 200
	defer slots.take(12)()
	w, m := newWorld(t), newMembers(t)
	var all []*bystander
	for range servers {
		all = append(all, w.bystander("server", w.dir, w.mcpscope("run", "--name", "same", "--", binaries.zoo, "--register", m.address, "plain")))
	}
	if !m.wait(patience, func() bool { return m.born == servers }) {
		t.Fatalf("%d of %d have started", m.count(), servers)
	}
	endAll(t, all[:servers/2])
	if n := len(m.running()); n != servers/2 {
		t.Errorf("%d servers live, want %d", n, servers/2)
	}
	for _, b := range all[servers/2:] {
		if !b.lives() {
			t.Errorf("a server does not answer: %s", describe(b.cmd.Process.Pid))
		}
	}
	endAll(t, all[servers/2:])
	if n := m.untilDead(patience); n > 0 {
		t.Errorf("%d servers left", n)
	}
	w.clean()
}

func endAll(t *testing.T, all []*bystander) {
	t.Helper()
	for _, b := range all {
		b.in.Close()
	}
	for _, b := range all {
		if err := b.cmd.Wait(); err != nil {
			t.Errorf("a server ended with %v", err)
		}
	}
}

// A server that starts its own servers with mcpscope: the inner groups are beside
// the outer one and end with it.
func TestNestedRun(t *testing.T) {
	graces := []string{"run", "--eof-grace", "300ms", "--term-grace", "300ms", "--"}
	for what, end := range map[string]func(*client){
		"stdin closed":   func(c *client) { c.tell("close") },
		"SIGTERM":        func(c *client) { c.tell("signal %d", unix.SIGTERM) },
		"outer SIGKILL":  func(c *client) { c.server.signal(unix.SIGKILL) },
		"client SIGKILL": func(c *client) { c.own.signal(unix.SIGKILL) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t), newMembers(t)
			line := append([]string{binaries.mcpscope}, graces...)
			line = append(append(line, binaries.mcpscope), graces...)
			c := w.newClient(w.unique("client"), []string{"--group"}, append(line, binaries.zoo, "--register", m.address, "ignore-both"))
			if err := m.untilReady(patience); err != nil {
				t.Fatalf("%v; stderr: %s", err, contents(c.stderr))
			}
			if n := len(w.groups()); n != 2 {
				t.Errorf("%d groups, want 2", n)
			}
			supervisors := w.supervisors()
			end(c)
			if !c.server.ended(patience) {
				t.Fatal("the outer launcher did not return")
			}
			if left := m.running(); len(left) > 0 && what != "outer SIGKILL" {
				t.Errorf("the outer launcher returned before they were dead: %q", left)
			}
			if n := m.untilDead(patience); n > 0 {
				t.Errorf("%d members left:\n\t%s", n, strings.Join(m.survivors(), "\n\t"))
			}
			for _, p := range supervisors {
				if !p.ended(patience) {
					t.Errorf("a supervisor lives: %s", describe(p.pid))
				}
			}
			w.clean()
		})
	}
}

// supervisors opens those of all groups of the world.
func (w *world) supervisors() []*process {
	w.t.Helper()
	var all []*process
	for _, dir := range w.groups() {
		pids, err := groupPids(filepath.Join(dir, "supervisor"))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, pid := range pids {
			p, err := openProcess(pid)
			if err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(p.close)
			all = append(all, p)
		}
	}
	return all
}
