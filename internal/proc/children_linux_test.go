// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

var strategies = map[string]func(int) ([]int, error){
	"by task": childrenByTask,
	"by scan": childrenByScan,
	"default": Children,
}

// TestChildren: of a process with two children, one of them a zombie and one
// with a child of its own.
func TestChildren(t *testing.T) {
	live, dead, parent := sleeper(t), sleeper(t), exec.Command("sh", "-c", "sleep 600 & echo $!; wait")
	out := must[interface{ Read([]byte) (int, error) }](t)(parent.StdoutPipe())
	start(t, parent)
	grandchild := must[string](t)(bufio.NewReader(out).ReadString('\n'))
	gc := must[[]int](t)(ParsePIDs([]byte(grandchild)))[0]
	t.Cleanup(func() { _ = unix.Kill(gc, unix.SIGKILL) }) // before its parent is reaped, so the pid is its own
	zombify(t, dead)

	want := sorted(live.Process.Pid, dead.Process.Pid, parent.Process.Pid)
	for name, children := range strategies {
		t.Run(name, func(t *testing.T) {
			skipWithoutChildrenFile(t, name)
			if got, err := children(os.Getpid()); err != nil || !slices.Equal(got, want) {
				t.Errorf("ours: %v, %v, want %v", got, err, want)
			}
			if got, err := children(parent.Process.Pid); err != nil || !slices.Equal(got, []int{gc}) {
				t.Errorf("the shell's: %v, %v, want %d", got, err, gc)
			}
			if got, err := children(live.Process.Pid); err != nil || len(got) != 0 {
				t.Errorf("a sleeper's: %v, %v", got, err)
			}
			if got, err := children(dead.Process.Pid); err != nil || len(got) != 0 {
				t.Errorf("a zombie's: %v, %v", got, err)
			}
		})
	}
}

// TestChildrenOfOtherThreads: a child is listed with the thread that forked it.
func TestChildrenOfOtherThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	want := []int{sleeper(t).Process.Pid, 0}
	started, done := make(chan int), make(chan struct{})
	defer close(done)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Error(err)
			close(started)
			return
		}
		t.Cleanup(func() { reap(cmd) })
		started <- cmd.Process.Pid
		<-done // so that the thread keeps its child while we look
	}()
	want[1] = <-started
	slices.Sort(want)
	for name, children := range strategies {
		t.Run(name, func(t *testing.T) {
			skipWithoutChildrenFile(t, name)
			if got, err := children(os.Getpid()); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

// TestThreadsThatEnd: one that has ended is no process that has gone.
func TestThreadsThatEnd(t *testing.T) {
	skipWithoutChildrenFile(t, "by task")
	child := sleeper(t)
	got, err := childrenOf(os.Getpid(), append(must[[]int](t)(threads(os.Getpid())), goneProcess(t)))
	if err != nil || !slices.Equal(got, []int{child.Process.Pid}) {
		t.Errorf("got %v, %v, want %d", got, err, child.Process.Pid)
	}
}

// skipWithoutChildrenFile skips what takes CONFIG_PROC_CHILDREN, on a kernel
// that was built without: then the strategy must say so.
func skipWithoutChildrenFile(t *testing.T, strategy string) {
	t.Helper()
	_, err := os.Stat("/proc/thread-self/children")
	if err == nil || strategy != "by task" {
		return
	}
	if _, err := childrenByTask(os.Getpid()); !errors.Is(err, errNoChildren) {
		t.Errorf("no children file, but: %v", err)
	}
	t.Skip("kernel without CONFIG_PROC_CHILDREN")
}
