// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/test/groups"
	"github.com/mcpscope/mcpscope/test/pace"
)

// endless has another member at each look.
type endless struct {
	freeze.Target
	last int
}

func (e *endless) Members() ([]int, error) {
	e.last++
	return []int{e.last}, nil
}

// A server can fork for ever. A command gives up, and says so.
func TestMarksOfMembersThatForkForEver(t *testing.T) {
	members := &endless{}
	hasMark := func(int) bool { return false }
	for name, result := range map[string]error{"marked": nil, "gone": unix.ESRCH} {
		err := markMembers(members, hasMark, func(int) error { return result })
		if !errors.Is(err, errForkTooFast) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Children inherit the mark, so a server that only forks does not keep the command busy. A second round in the frozen group,
// in which no fork is under way, marks the children that had copied nothing.
func TestMarksOfMembersThatFork(t *testing.T) {
	g := newGroup(t, groups.Directory(t), "forks")
	t.Cleanup(g.Close) // after the kill of its members
	forkInLoops(t, g)
	if err := g.Membership().Tag(); err != nil {
		t.Error(err)
	}
	ownScore, err := readOOMScore(unix.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Limits().preferMembers(unix.Getpid()); err != nil {
		t.Error(err)
	}
	frozen := func() bool { return freeze.Freeze(g.Payload) } // it gives up soon, and the machine may be busy
	if !pace.Eventually(30*time.Second, frozen) {
		t.Fatal("the group does not freeze")
	}
	if err := errors.Join(g.Membership().Tag(), g.Limits().preferMembers(unix.Getpid())); err != nil {
		t.Error(err)
	}
	pids, err := g.Membership().PIDs()
	if err != nil || len(pids) == 0 {
		t.Fatalf("members: %v, %v", pids, err)
	}
	for _, pid := range pids {
		score, err := readOOMScore(pid)
		if !TagOf(g.ID).On(pid) || err != nil || score < oomScoreAbove(ownScore) {
			t.Errorf("process %d has the tag: %t; its score is %d (%v)", pid, TagOf(g.ID).On(pid), score, err)
		}
	}
}

// forkInLoops starts members that fork without a pause, until the test ends.
func forkInLoops(t *testing.T, g *ControlGroup) {
	t.Helper()
	for range 4 {
		cmd := exec.Command("sh", "-c", "echo; while :; do (:) & (:) & wait; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.Payload.FD()}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = g.Payload.Kill() // ENODEV: it was removed
			_ = cmd.Wait()       // it was killed
		})
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}
