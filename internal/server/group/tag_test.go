// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/groups"
)

// Where descriptors are missing, the list of the processes with a tag has an error. It never has a member of
// another server, which would get a signal, and it is not empty as if nothing were left.
func TestTaggedWithFewDescriptors(t *testing.T) {
	parent := groups.Directory(t)
	own := newGroup(t, parent, "own")
	defer own.Close()
	config := protocol.NewConfig()
	config.Facts.Policy = policy.Default()
	const isScope = true // whose payload is opened besides
	other := New(names.NewID(), config, names.SystemdSystem, isScope)
	if err := other.Make(parent, config); err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	abandoned, err := parent.Mkdir(names.DirectoryName("abandoned", names.NewID()), GroupMode)
	if err != nil {
		t.Fatal(err)
	}
	defer abandoned.Close()
	member := taggedMember(t, own, abandoned)
	bystander := taggedMember(t, own, other.Payload)
	tagged := own.Membership().Tagged()
	hasFailed := false
	for free := range 8 {
		var found []int
		var err error
		withFreeDescriptors(t, free, func() { found, err = tagged.Members() })
		hasFailed = hasFailed || err != nil
		if slices.Contains(found, bystander) {
			t.Errorf("%d free: the member of another server is listed", free)
		}
		if err == nil && !slices.Contains(found, member) {
			t.Errorf("%d free: a member is not listed, without an error", free)
		}
	}
	if !hasFailed {
		t.Error("the descriptors were enough each time")
	}
	if found, err := tagged.Members(); err != nil || !slices.Equal(found, []int{member}) {
		t.Errorf("with descriptors: %v, %v, want %d", found, err, member)
	}
}

// taggedMember starts a process in a directory that carries the tag of a group.
func taggedMember(t *testing.T, of *ControlGroup, dir *cgroup.Group) int {
	t.Helper()
	pid := groups.Member(t, dir)
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := TagOf(of.ID).Put(pid, pidfd); err != nil {
		t.Skip(err) // another limit of RLIMIT_LOCKS is in use
	}
	return pid
}

// withFreeDescriptors does something while this process can open so many descriptors.
func withFreeDescriptors(t *testing.T, free int, do func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var open []int
	defer func() {
		for _, fd := range open {
			_ = unix.Close(fd)
		}
	}()
	for range 100 { // the lowest numbers, so that there is no other below the limit
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, fd)
	}
	few := unix.Rlimit{Cur: uint64(slices.Max(open)) + 1, Max: before.Max}
	for _, fd := range open[:free] {
		_ = unix.Close(fd)
	}
	open = open[free:]
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few)
	if err == nil {
		do()
	}
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)); err != nil {
		t.Fatal(err)
	}
}
