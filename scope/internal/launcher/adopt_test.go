// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/scope/internal/lifecycle"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/scope/internal/sweep"
)

// A server that is in its group is in use, however long whoever takes it has something else to do before its supervisor
// hears of it.
func TestTakenIsInUseBeforeItIsGuided(t *testing.T) {
	sleeper := exec.Command("sleep", "100")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	}()
	var pidfds [2]int
	for i, pid := range []int{sleeper.Process.Pid, os.Getpid()} {
		var err error
		if pidfds[i], err = unix.PidfdOpen(pid, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pidfds[i])
	}
	s := &Server{Name: "taken", Backend: protocol.Cgroup, Report: -1, Executable: "/proc/self/exe", Env: []string{heldEnv + "=1"}, Policy: protocol.DefaultPolicy()}
	taken, err := s.Take(lifecycle.Child{PID: sleeper.Process.Pid, PIDFD: pidfds[0], ClientPIDFD: pidfds[1]})
	if err != nil {
		t.Fatal(err)
	}
	g := taken.Group()
	parent, err := g.Top.Parent()
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	orphan, err := sweep.FindOrphan(parent, g.Dir, time.Now())
	if orphan != nil {
		orphan.Close()
	}
	if orphan != nil || err != nil {
		t.Errorf("a sweep would end it (%v)", err)
	}
	first := taken.l.supervisor
	if err := unix.PidfdSendSignal(taken.l.begun, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	linux.AwaitEnd(taken.l.begun, unix.POLLIN, time.Minute)
	if err := taken.l.employ(); err != nil || taken.l.supervisor == first || linux.Ended(taken.l.begun) {
		t.Errorf("one that a member has killed has no successor (%v)", err)
	}
	taken.Release()
}
