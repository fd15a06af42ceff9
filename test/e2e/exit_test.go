// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

func TestExitStatusIsTheMainProcesss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var running sync.WaitGroup
	for lane := range 4 {
		running.Go(func() {
			for status := lane; status < 256; status += 4 {
				o, err := w.tryRun(w.mcpscope("run", "--", "sh", "-c", fmt.Sprint("exit ", status)))
				if err != nil || !o.status.Exited() || o.status.ExitStatus() != status || o.stderr != "" {
					t.Errorf("exit %d became %v, %v; stderr: %s", status, o.status, err, o.stderr)
				}
			}
		})
	}
	running.Wait()
	w.clean()
}

func TestDeathBySignalIsPassedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, sig := range []unix.Signal{
		unix.SIGTERM, unix.SIGKILL, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT,
		unix.SIGSEGV, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.Signal(34),
	} {
		// No core dumps of ours: the launcher must not leave one either.
		o := w.run(w.Command("sh", "-c", `ulimit -c 0; exec "$0" run -- sh -c "kill -$1 \$\$"`, binaries.mcpscope, fmt.Sprint(int(sig))))
		if !o.status.Signaled() || o.status.Signal() != sig || o.stderr != "" {
			t.Errorf("death by %v became %v; stderr: %s", sig, o.status, o.stderr)
		}
	}
	w.clean()
}

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
