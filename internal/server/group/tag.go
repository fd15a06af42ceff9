// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A process that has moved to another cgroup is re-parented to the guard when its parent dies; but not that of a server
// which the client has started, nor one that has a parent in another pid namespace, nor any when the guard was killed. All
// these are found by a tag that all members inherit.

// TagOf is made of the id alone, so that everybody who ends a group knows it.
func TagOf(id string) freeze.Tag {
	var bits uint64
	for _, letter := range id {
		at := strings.IndexRune(protocol.IDLetters, letter)
		if at < 0 {
			return 0 // not an id of ours
		}
		bits = bits*uint64(len(protocol.IDLetters)) + uint64(at)
	}
	return freeze.NewTag(bits)
}

func (g *ControlGroup) TagMembers() error {
	tagged := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		pids, err := g.Payload.Members()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if tagged[pid] {
				continue
			}
			if err := g.tagOne(pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			tagged[pid], fresh = true, true
		}
	}
	return nil
}

func (g *ControlGroup) tagOne(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	defer unix.Close(fd)
	if where, err := proc.ReadCgroup(pid); err != nil || !g.holds(where) {
		return unix.ESRCH // it has ended or left, and the pid may be another's
	}
	return TagOf(g.ID).Put(pid, fd)
}

// EndWithTagged ends all of the group, a member that has moved to the directory above the payload
// too, and then who has left it with the tag.
func (g *ControlGroup) EndWithTagged(s freeze.Stop) ([]freeze.Stuck, error) {
	s.Target = g.Top
	left, err := s.Run()
	moved, tagErr := freeze.Stop{Target: g.Tagged()}.Run()
	return freeze.AddStuck(left, moved), errors.Join(err, tagErr)
}

// Tagged are the processes that carry the group's tag. An id is the name of a directory that
// anyone can make below a cgroup of theirs, and a tag can be put on anything of theirs; so the
// owner of the group decides whose processes count, and no member of another server's group does.
func (g *ControlGroup) Tagged() *freeze.Tree {
	return &freeze.Tree{Tag: TagOf(g.ID), Owner: g.owner(), Spare: inAnotherGroup(g.Top)}
}

// owner is the user who made the group; nobody's processes count where that can't be read.
func (g *ControlGroup) owner() int {
	var st unix.Stat_t
	if unix.Fstat(g.Payload.FD(), &st) != nil {
		return -1
	}
	return int(st.Uid)
}

func TaggedTree(id string) *freeze.Tree {
	return &freeze.Tree{Tag: TagOf(id), Owner: os.Getuid(), Spare: inAnotherGroup(nil)}
}

// inAnotherGroup tells of a process whether it is in a server's group that is in use, and that is
// not own. What can't be found out counts as yes: such a process is not ours to signal.
func inAnotherGroup(own *cgroup.Group) func(proc.Stat) bool {
	return func(st proc.Stat) bool {
		where, err := proc.ReadCgroup(st.PID)
		if errors.Is(err, proc.ErrNoCgroup2) || errors.Is(err, proc.ErrGone) {
			return false
		}
		if err != nil || strings.HasPrefix(where, "/..") {
			return true
		}
		if !strings.Contains(where, "/"+protocol.GroupPrefix) {
			return false
		}
		here, err := hierarchy.OwnPosition()
		if err != nil {
			return true
		}
		defer here.Root.Close()
		return belowAnother(here.Root, own, where)
	}
}

// InAny tells whether the path of a cgroup has a directory in it that is named as a server's group.
func InAny(where string) bool {
	return slices.ContainsFunc(strings.Split(where, "/"), protocol.IsGroup)
}

// belowAnother looks at each directory on the way to where.
func belowAnother(root, own *cgroup.Group, where string) bool {
	for dir := where; dir != "/" && dir != "."; dir = path.Dir(dir) {
		if !protocol.IsGroup(path.Base(dir)) {
			continue
		}
		g := &ControlGroup{Dir: path.Base(dir)}
		var err error
		if g.Top, err = root.Child(strings.TrimPrefix(dir, "/")); err != nil {
			continue // it has just gone, and the process with it
		}
		another := (own == nil || !g.Top.Same(own)) && g.inUse()
		g.Close()
		if another {
			return true
		}
	}
	return false
}

// inUse tells whether the group is guarded: it is armed, and its lock is held.
func (g *ControlGroup) inUse() bool {
	var err error
	if g.Payload, err = g.Top.Child(protocol.PayloadName); err != nil {
		return false
	}
	_, armed, _ := g.Payload.Attr(AttrArmed)
	return armed && errors.Is(g.Payload.TryLock(unix.LOCK_SH), unix.EWOULDBLOCK)
}
