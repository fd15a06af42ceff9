// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// waits runs a command below a waiter whose stdin stays open, and returns the lines of that.
func (w *world) waits(options []string, command ...string) []string {
	w.T.Helper()
	theirs, ours := bed.Pipe(w.T)
	defer ours.Close()
	cmd := w.Command(append(append([]string{binaries.waiter}, options...), command...)...)
	cmd.Stdin = theirs
	o := w.run(cmd)
	theirs.Close()
	if o.Status != 0 || o.Stderr != "" {
		w.T.Errorf("%v: %v; stderr: %s", command, o.Status, o.Stderr)
	}
	return strings.Split(strings.TrimSpace(o.Stdout), "\n")
}

// What waitid(2) and wait4(2) report of the pid that a client has started is the same with mcpscope.
func TestWaitOfTheClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options []string
		script  string
		hasCore bool // which only the server without mcpscope shows: see how-it-works.md, Differences
	}{
		"status 0":           {nil, "exit 0", false},
		"status 7":           {nil, "exit 7", false},
		"status 255":         {nil, "exit 255", false},
		"SIGTERM":            {nil, "kill -TERM $$", false},
		"SIGKILL":            {nil, "kill -KILL $$", false},
		"a real-time signal": {nil, "kill -40 $$", false},
		"a core dump":        {nil, "cd " + t.TempDir() + "; ulimit -c unlimited; kill -ABRT $$", true},
		"stop, continue":     {[]string{"-pause"}, "echo; while :; do read -r line; done", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			server := []string{"sh", "-c", c.script}
			bare := w.waits(c.options, server...)
			contained := w.waits(c.options, append([]string{binaries.mcpscope, "run", "--"}, server...)...)
			if c.hasCore { // CLD_DUMPED is 3 and CLD_KILLED 2; 0x80 is the bit of wait4
				bare = []string{strings.NewReplacer("waitid 3,", "waitid 2,", "wait4 0x86", "wait4 0x6").Replace(bare[0])}
			}
			if !slices.Equal(bare, contained) {
				t.Errorf("without mcpscope %q, with it %q", bare, contained)
			}
			w.clean()
		})
	}
}

// A client that is a subreaper gets the guard as a child, and the helper that outlives it. No other stranger comes,
// all of them can be reaped, and each server has its own status.
func TestWaitOfASubreaper(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"cgroup", "tree"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const server = "(setsid sleep 1000 & setsid sleep 1000 &); exit 7"
			for range 5 {
				command := []string{binaries.mcpscope, "run", "--backend", backend, "--term-grace", "0", "--", "sh", "-c", server}
				lines := w.waits([]string{"-subreaper"}, command...)
				own := slices.DeleteFunc(slices.Clone(lines), isOfMcpscope)
				if want := []string{"child waitid 1,7 wait4 0x700"}; !slices.Equal(own, want) {
					t.Errorf("of all changes, %q, these are not mcpscope's: %q, want %q", lines, own, want)
				}
			}
			w.clean()
		})
	}
}

// isOfMcpscope reports whether a line of a waiter is of a guard or a helper.
func isOfMcpscope(line string) bool {
	return strings.HasPrefix(line, "guard-") || strings.HasPrefix(line, "helper-")
}

// A kill of the whole tree of a client that is a subreaper reaches launcher and guard. Members that are outside of that
// tree by then are an orphan, which the next start stops.
func TestKillOfTheTreeOfASubreaper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs, ours := bed.Pipe(t)
	defer ours.Close()
	s := &server{world: w, members: escape.NewMembers(t)}
	cmd := w.Command(binaries.waiter, "-subreaper", binaries.mcpscope, "run", "--name", "server", "--", binaries.probe,
		"--register", s.members.Address, "--members", "2")
	cmd.Stdin = theirs
	if err := escape.StartIn(w.Dir, cmd); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	defer func() { _ = cmd.Wait() }() // it was killed
	if err := s.members.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	s.group, s.guard = w.find(s.members)
	if parent, err := escape.ParentOf(s.guard.PID); err != nil || parent != cmd.Process.Pid {
		t.Errorf("the guard's parent is %d (%v), want the client, %d", parent, err, cmd.Process.Pid)
	}
	main, _ := s.members.Main()
	launcher, err := escape.ParentProcess(main)
	if err != nil {
		t.Fatal(err)
	}
	defer launcher.Close()
	client, err := escape.ParentProcess(launcher)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := escape.KillTogether(client, launcher, s.guard, main); err != nil {
		t.Fatal(err)
	}
	next := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	s.members.WantDead(t)
	next.Tell("close")
	next.dead()
	w.clean()
}
