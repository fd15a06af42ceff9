// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A container's first process must reap the orphaned processes. The tests of its status are in test/script.
func TestFirstProcessReapsWhatComesToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs, ours := bed.Pipe(t)
	cmd := w.Viewed([]string{"--litter", "3", "--proc"}, binaries.mcpscope, "run", "--", binaries.Zoo, "plain")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	cmd.ExtraFiles = []*os.File{theirs}
	b := w.Bystander("first process", w.Dir, cmd)
	theirs.Close()
	if !b.Lives() {
		t.Fatal("the server does not answer")
	}
	ours.Close() // the litter ends
	first := cmd.Process.Pid
	for pause := escape.Patience >> 15; zombies(first) > 0; pause *= 2 { // no event reports that a process was reaped
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

// As the first process of a container it gets each orphan: its guard must not count as a process that the server has left.
func TestFirstProcessEndsWithItsServer(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"cgroup", "tree"} {
		w := newWorld(t)
		cmd := w.Viewed([]string{"--proc"}, binaries.mcpscope, "run", "--backend", backend, "--term-grace", never, "--", "sh", "-c", "exit 3")
		cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		o, err := escape.Finish(w.Dir, cmd)
		if err != nil || o.Status.ExitStatus() != 3 {
			t.Errorf("%s: status %d, want 3: %v: %s", backend, o.Status.ExitStatus(), err, o.Stderr)
		}
		w.clean()
	}
}

// A member that mcpscope may not signal counts as one that SIGKILL does not end: status 125, and the report names it. That
// is another user's process, below a root without CAP_KILL.
func TestMemberThatMayNotBeSignalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	report := filepath.Join(t.TempDir(), "report")
	up := filepath.Join(escape.OpenDir(t), "up")
	theirs, ours := bed.Pipe(t)
	cmd := w.Command("setpriv", "--bounding-set", "-kill", binaries.mcpscope, "run", "--backend", "tree", "--report", report, "--term-grace", soon,
		"--", "sh", "-c", "setpriv --reuid 4002 --regid 4002 --clear-groups sh -c ': >"+up+"; exec cat <&3' & until [ -e "+up+" ]; do sleep 0.1; done; exit 3")
	cmd.ExtraFiles = []*os.File{theirs}
	o, err := escape.Finish(w.Dir, cmd)
	text, _ := os.ReadFile(report) // there is none after another end
	if err != nil || o.Status.ExitStatus() != 125 || !strings.Contains(string(text), `"stuck"`) {
		t.Errorf("status %d, want 125: %v: %s; report %s", o.Status.ExitStatus(), err, o.Stderr, text)
	}
	theirs.Close()
	ours.Close() // it ends
	w.clean()
}

// The launcher can't remove a group in which the server has made another: a helper removes it. The client holds
// stdin open, which would end the server otherwise.
func TestExitOfAServerThatMadeAGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs, ours := bed.Pipe(t)
	defer ours.Close()
	const script = `mkdir "$1$(sed -n 's/^0:://p' /proc/self/cgroup)/made" && exit 3`
	for range 2 { // the first start makes what a start without a Go runtime needs
		cmd := w.Command(binaries.mcpscope, "run", "--name", "maker", "--", "sh", "-c", script, "-", w.Seen(w.Dir))
		cmd.Stdin = theirs
		o, err := escape.Finish(w.Dir, cmd)
		if err != nil || o.Status.ExitStatus() != 3 {
			t.Errorf("status %d, want 3: %v: %s", o.Status.ExitStatus(), err, o.Stderr)
		}
	}
	theirs.Close()
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
