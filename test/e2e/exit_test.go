// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// asFirst makes mcpscope the first process of a pid namespace, with the world's
// view of everything else and a /proc of its own.
func (w *world) asFirst(options []string, args ...string) *exec.Cmd {
	cmd := w.Viewed(append(options, "--proc"), append([]string{binaries.mcpscope}, args...)...)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	return cmd
}

// The first process of a pid namespace can't die of a signal of its own.
func TestFirstProcessExitsWith128AndTheSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for script, want := range map[string]int{
		"exit 0": 0, "exit 3": 3, "kill -TERM $$": 128 + 15, "kill -KILL $$": 128 + 9, "kill -INT $$": 128 + 2,
	} {
		o := w.run(w.asFirst(nil, "run", "--", "sh", "-c", script))
		if !o.status.Exited() || o.status.ExitStatus() != want || o.stderr != "" {
			t.Errorf("%q ended with %v, want exit %d; stderr: %s", script, o.status, want, o.stderr)
		}
	}
	w.clean()
}

// What is orphaned in a container comes to its first process, which must reap it.
func TestFirstProcessReapsWhatComesToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	cmd := w.asFirst([]string{"--litter", "3"}, "run", "--", binaries.Zoo, "plain")
	cmd.ExtraFiles = []*os.File{theirs}
	b := w.Bystander("first process", w.Dir, cmd)
	theirs.Close()
	if !b.Lives() {
		t.Fatal("the server does not answer")
	}
	ours.Close() // the litter ends
	first := cmd.Process.Pid
	for pause := time.Millisecond; zombies(first) > 0; pause *= 2 { // no event tells of a reaped stranger
		if pause > escape.Patience {
			t.Fatalf("%d zombies are left to the first process", zombies(first))
		}
		escape.PollFor(pause)
	}
	if err := unix.Kill(first, unix.SIGTERM); err != nil { // ours, and not reaped
		t.Fatal(err)
	}
	_ = cmd.Wait() // its status follows
	if code := cmd.ProcessState.ExitCode(); code != 128+15 {
		t.Errorf("ended with %v, want exit 143", cmd.ProcessState)
	}
	w.clean()
}

// zombies counts the children of pid that are dead and unreaped.
func zombies(pid int) int {
	n := 0
	for child, parent := range escape.Parents() {
		if state, err := escape.StatField(child, 3); parent == pid && err == nil && state == "Z" {
			n++
		}
	}
	return n
}
