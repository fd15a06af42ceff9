// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// footprint is what a storm of reconnects could leave behind.
type footprint struct {
	processes, groups, dying, descriptors int
}

func (w *world) footprint() footprint {
	w.T.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		w.T.Fatal(err)
	}
	f := footprint{descriptors: len(fds)}
	// Who removes the last group does so from here; the directory may come and go.
	leaving := filepath.Join(rootsSlice(w.Site), "leaving")
	if err := bed.WaitEmpty(leaving, escape.Patience); err != nil {
		w.T.Error(err)
	}
	_ = filepath.WalkDir(w.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != leaving {
			pids, _ := escape.GroupPids(path) // it may be gone by now
			f.processes += len(pids)
			f.groups++
		}
		return nil
	})
	stat, err := os.ReadFile(filepath.Join(w.Dir, "cgroup.stat"))
	if err != nil {
		w.T.Fatal(err)
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
	cycles := 20
	if escape.Full() {
		cycles = 500
	}
	for cycle := 1; cycle <= cycles; cycle++ {
		w.reconnect()
		if cycle == cycles/2 {
			early = w.footprint()
		}
	}
	final := w.footprint()
	if escape.Full() && final.dying > early.dying+100 {
		t.Errorf("%d groups are dying after %d cycles, %d after half of them", final.dying, cycles, early.dying)
	}
	early.dying, final.dying = 0, 0
	if early != final {
		t.Errorf("after half of %d cycles %+v, at their end %+v", cycles, early, final)
	}
	w.clean()
}

// reconnect starts a server, talks to it, closes its stdin and waits for it.
func (w *world) reconnect() {
	w.T.Helper()
	b := w.NewEcho(w.Dir, w.mcpscope("run", "--name", "storm", "--", binaries.Zoo, "plain"))
	if !b.Lives() {
		w.T.Fatal("the server does not answer")
	}
	b.In.Close()
	if err := b.Cmd.Wait(); err != nil {
		w.T.Fatal(err)
	}
	b.Out.Close()
}

// Many at once, all of one name: all start, half of them end, and the other half
// notices nothing.
func TestManyServersOfOneName(t *testing.T) {
	t.Parallel()
	servers := 16
	if escape.Full() {
		servers = 200
	}
	defer escape.Slots.Take(4)()
	w, m := newWorld(t), escape.NewMembers(t)
	var all []*escape.Bystander
	for range servers {
		all = append(all, w.Bystander("server", w.Dir, w.mcpscope("run", "--name", "same", "--", binaries.Zoo, "--register", m.Address, "plain")))
	}
	if !m.AwaitBorn(servers, escape.Patience) {
		t.Fatalf("%d of %d have started", m.Count(), servers)
	}
	endAll(t, all[:servers/2])
	if n := len(m.Running()); n != servers/2 {
		t.Errorf("%d servers live, want %d", n, servers/2)
	}
	for _, b := range all[servers/2:] {
		if !b.Lives() {
			t.Errorf("a server does not answer: %s", escape.Describe(b.Cmd.Process.Pid))
		}
	}
	endAll(t, all[servers/2:])
	if n := m.UntilDead(escape.Patience); n > 0 {
		t.Errorf("%d servers left", n)
	}
	w.clean()
}

func endAll(t *testing.T, all []*escape.Bystander) {
	t.Helper()
	for _, b := range all {
		b.In.Close()
	}
	for _, b := range all {
		if err := b.Cmd.Wait(); err != nil {
			t.Errorf("a server ended with %v", err)
		}
	}
}

// A server that starts its own servers with mcpscope: the inner groups are beside
// the outer one and end with it.
func TestNestedRun(t *testing.T) {
	graces := []string{"run", "--eof-grace", "300ms", "--term-grace", "300ms", "--"}
	for what, end := range map[string]func(*escape.Client){
		"stdin closed":   func(c *escape.Client) { c.Tell("close") },
		"SIGTERM":        func(c *escape.Client) { c.Tell("signal %d", unix.SIGTERM) },
		"outer SIGKILL":  func(c *escape.Client) { c.Server.Signal(unix.SIGKILL) },
		"client SIGKILL": func(c *escape.Client) { c.Own.Signal(unix.SIGKILL) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t), escape.NewMembers(t)
			line := append([]string{binaries.mcpscope}, graces...)
			line = append(append(line, binaries.mcpscope), graces...)
			c := w.NewClient(w.Unique("client"), []string{"--group"}, append(line, binaries.Zoo, "--register", m.Address, "ignore-both"))
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
			}
			if n := len(w.groups()); n != 2 {
				t.Errorf("%d groups, want 2", n)
			}
			supervisors := w.supervisors()
			end(c)
			if !c.Server.Ended(escape.Patience) {
				t.Fatal("the outer launcher did not return")
			}
			if left := m.Running(); len(left) > 0 && what != "outer SIGKILL" {
				t.Errorf("the outer launcher returned before they were dead: %q", left)
			}
			if n := m.UntilDead(escape.Patience); n > 0 {
				t.Errorf("%d members left:\n\t%s", n, strings.Join(m.Survivors(), "\n\t"))
			}
			for _, p := range supervisors {
				if !p.Ended(escape.Patience) {
					t.Errorf("a supervisor lives: %s", escape.Describe(p.PID))
				}
			}
			w.clean()
		})
	}
}

// supervisors opens those of all groups of the world.
func (w *world) supervisors() []*escape.Process {
	w.T.Helper()
	var all []*escape.Process
	for _, dir := range w.groups() {
		pids, err := escape.GroupPids(filepath.Join(dir, "supervisor"))
		if err != nil {
			w.T.Fatal(err)
		}
		for _, pid := range pids {
			p, err := escape.OpenProcess(pid)
			if err != nil {
				w.T.Fatal(err)
			}
			w.T.Cleanup(p.Close)
			all = append(all, p)
		}
	}
	return all
}
