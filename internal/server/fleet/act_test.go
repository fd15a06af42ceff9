// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/test/groups"
)

// The end of a guard is not that of its tree: one that was killed leaves members, and a launcher that is stopped forks
// no other guard.
func TestStopOfATreeWithoutItsGuard(t *testing.T) {
	id := "stopabcd"
	member, memberFD := startSleeper(t)
	if err := group.TagOf(id).Put(member.Process.Pid, memberFD); err != nil {
		t.Skip(err) // another limit of RLIMIT_LOCKS is in use
	}
	guard, guardFD := startSleeper(t)
	if err := guard.Process.Kill(); err != nil { // our child
		t.Fatal(err)
	}
	_ = guard.Wait() // it was killed
	s := &Listed{
		UID: os.Getuid(),
		Handle: Handle{
			tree:    &backend.TreeGuard{PID: guard.Process.Pid, UID: os.Getuid(), PIDFD: guardFD},
			members: &freeze.Tree{Tag: group.TagOf(id), Owner: os.Getuid()},
		},
	}
	s.Placed.ID = id
	err := s.Stop(AtMost(0), "")
	if err != nil || !linux.Ended(memberFD) {
		t.Errorf("the stop returned %v; the member has ended: %t", err, linux.Ended(memberFD))
	}
}

// The members of a group are also those that have moved elsewhere, of which only the tag tells.
func TestStopOfAMemberElsewhere(t *testing.T) {
	g := lockedGroup(t, groups.Directory(t))
	defer g.Close() // this process has its lock
	elsewhere := groups.Directory(t)
	pid := groups.Member(t, elsewhere)
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := group.TagOf(g.ID).Put(pid, pidfd); err != nil {
		t.Skip(err) // another limit of RLIMIT_LOCKS is in use
	}
	servers, err := List(group.CallingUser())
	if err != nil {
		t.Fatal(err)
	}
	defer closeListed(servers)
	found := slices.IndexFunc(servers, func(s *Listed) bool { return s.Placed.ID == g.ID })
	if found < 0 {
		t.Fatalf("%s is not listed", g.ID)
	}
	err = servers[found].Stop(AtMost(0), "")
	if err != nil || !linux.Ended(pidfd) {
		t.Errorf("the stop returned %v; the member has ended: %t", err, linux.Ended(pidfd))
	}
}

// startSleeper starts a process that the test kills.
func startSleeper(t *testing.T) (cmd *exec.Cmd, pidfd int) {
	t.Helper()
	cmd = exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // our child
		_ = cmd.Wait()         // it was killed
		_ = unix.Close(pidfd)
	})
	return cmd, pidfd
}

// A limit that there was not has a word.
func TestDescribeChange(t *testing.T) {
	for want, c := range map[string][3]string{
		"pids.max=9, was max":            {"pids.max", "9", "max"},
		"pids.max=9, was none":           {"pids.max", "9", ""}, // the controller was enabled just now
		"io.max=none, was 8:0 rbps=1024": {"io.max", "", "8:0 rbps=1024"},
	} {
		if got := describeChange(c[0], c[1], c[2]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	dir := groups.Directory(t)
	if got := readBefore(dir, "no.such-file"); got != "" {
		t.Errorf("of a file that is not there: %q", got)
	}
}
