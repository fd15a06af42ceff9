// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// A process that moved to another cgroup is re-parented to the launcher when its parent dies. Not so a
// process of a taken server, or any after the launcher was killed: the tag finds these. One that enters the
// cgroup and the pid namespace of a container is that container's.

// TagOf depends on the id alone, so that every sweep can compute it.
func TagOf(id string) freeze.Tag {
	bits, err := strconv.ParseUint(id, 36, freeze.TagBits)
	if err != nil {
		return 0 // not an id of ours
	}
	return freeze.NewTag(bits)
}

// CanTag reports why the children of this process could carry no tag.
func CanTag() error {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_LOCKS, &limit) // it can't fail
	if limit.Max != unix.RLIM_INFINITY {
		return fmt.Errorf("the hard limit of RLIMIT_LOCKS is %d: %w", limit.Max, unix.EPERM)
	}
	return nil
}

// Membership is that of the processes of a group.
type Membership struct{ of *ControlGroup }

// Membership returns how a process becomes a member, is recognized as one, and is one no longer.
func (g *ControlGroup) Membership() Membership { return Membership{g} }

// PIDs lists the members, in any order.
func (m Membership) PIDs() ([]int, error) { return m.of.Members().Members() }

// Take puts a process that runs into the group. The members of a tree are those with its tag.
func (m Membership) Take(pid, pidfd int) error {
	if m.of.IsTree() {
		return TagOf(m.of.ID).Put(pid, pidfd)
	}
	return m.of.Payload.Take(pid)
}

// Expel moves a process that is no member to where the one was that has ended: a group is entered by pid. A
// child of a member, with the same pid by chance, has the tag, and stays.
func (m Membership) Expel(pid int, before *cgroup.Group) {
	pids, _ := m.PIDs() // none, if it was removed
	if before == nil || !slices.Contains(pids, pid) || TagOf(m.of.ID).On(pid) {
		return
	}
	_ = before.Take(pid) // a user may not move it into a login session
}

// Tag gives all members the tag of the group.
func (m Membership) Tag() error {
	if m.of.IsTree() {
		return nil // Take has
	}
	tag := TagOf(m.of.ID)
	err := markMembers(m.of.Payload, tag.On, func(pid int) error {
		fd, err := m.open(pid)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return tag.Put(pid, fd)
	})
	if err != nil {
		return fmt.Errorf("tag the members: %w", err)
	}
	return nil
}

// Untag removes the tag from all members. It gives up the race with members that fork at some time.
func Untag(members freeze.Target, tag freeze.Tag) {
	for range untagTries {
		pids, _ := members.Members() // a partial list is better than none
		hasTagged := false           // a child may have been forked before its parent's tag was removed
		for _, pid := range pids {
			hasTagged = hasTagged || tag.On(pid)
			tag.Remove(pid)
		}
		if !hasTagged {
			return
		}
	}
}

const untagTries = 100

// EndWithTagged stops all of the group, also members in the directory above the payload, and then the
// members that left it.
func (m Membership) EndWithTagged(s freeze.Stop) ([]freeze.Stuck, error) {
	s.Target = m.of.Top()
	left, err := s.Run()
	moved, tagErr := freeze.Stop{Target: m.Tagged()}.Run()
	return freeze.AddStuck(left, moved), errors.Join(err, tagErr)
}

// Tagged are the processes that carry the group's tag. Any user can make a directory with this id, and put
// the tag on own processes. So only processes of the group's owner count, and no member of another server.
func (m Membership) Tagged() *freeze.Tree {
	return &freeze.Tree{Tag: TagOf(m.of.ID), Owner: m.Owner(), Spare: inAnotherGroup(m.of.Top())}
}

// Owner returns the user that made the group, or -1 if that is unknown. No process is owned by -1.
func (m Membership) Owner() int {
	if m.of.IsTree() {
		return os.Getuid()
	}
	var st unix.Stat_t
	if unix.Fstat(m.of.Payload.FD(), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

// inAnotherGroup reports whether a process is in the group of another server that is in use. If that is
// unknown it is true: such a process must not be signalled. An error means that there may be an answer later.
func inAnotherGroup(own *cgroup.Group) func(proc.Stat) (bool, error) {
	return func(st proc.Stat) (bool, error) {
		where, err := proc.ReadCgroup(st.PID)
		if errors.Is(err, proc.ErrNoCgroup2) || err != nil && proc.Exited(st.PID) {
			return false, nil
		}
		if err != nil || strings.HasPrefix(where, "/..") {
			return true, onlyExhausted(err)
		}
		if !strings.Contains(where, "/"+names.GroupPrefix) {
			return false, nil
		}
		root, _, err := Position(0)
		if err != nil {
			return true, onlyExhausted(err)
		}
		defer root.Close()
		for dir := where; dir != "/" && dir != "."; dir = path.Dir(dir) {
			if !names.IsGroup(path.Base(dir)) {
				continue
			}
			if isUsed, err := inUse(root, dir, own); isUsed || err != nil {
				return true, err
			}
		}
		return false, nil
	}
}

// inUse reports whether a directory is a group that is armed and locked, and not our own. An error means that
// there were no descriptors to open it.
func inUse(root *cgroup.Group, dir string, own *cgroup.Group) (bool, error) {
	g, err := Open(root, strings.TrimPrefix(dir, "/"))
	if err != nil { // if it was removed, the process has exited
		g.Close()
		return false, onlyExhausted(err)
	}
	defer g.Close()
	if own != nil && g.Top().Same(own) {
		return false, nil
	}
	_, armed, _ := g.Payload.Attr(AttrArmed) // not armed, if it can't be read
	return armed && errors.Is(g.Payload.TryLock(unix.LOCK_SH), unix.EWOULDBLOCK), nil
}

// onlyExhausted drops an error that would be the same the next time.
func onlyExhausted(err error) error {
	if proc.IsExhausted(err) {
		return err
	}
	return nil
}
