// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// attrKept is set on a group of processes that have outlived their server: an encoded protocol.Kept.
const attrKept = "user.mcpscope.kept"

// KeptGroup has processes that a pattern keeps. It is beside the groups of servers, and is none: it has no
// lock, no guard and no tag, so no sweep takes it for an orphan.
type KeptGroup struct {
	protocol.Kept
	Dir *cgroup.Group
	// Managed: a manager has made it, as a scope, and removes it.
	Managed bool
}

// OpenKept opens one by its directory. What it is of is unknown, all zero, where processes of its user have
// overwritten that.
func OpenKept(parent *cgroup.Group, dir string) (*KeptGroup, error) {
	opened, err := parent.Child(dir)
	if err != nil {
		return nil, err
	}
	k := &KeptGroup{Dir: opened, Managed: strings.HasSuffix(dir, names.ScopeSuffix)}
	text, _, _ := opened.Attr(attrKept) // none, if it can't be read
	if protocol.Decode([]byte(text), &k.Kept) != nil {
		k.Kept = protocol.Kept{}
	}
	return k, nil
}

// Record sets the attribute.
func (k *KeptGroup) Record() error { return k.Dir.SetAttr(attrKept, string(protocol.Encode(&k.Kept))) }

// Close closes its descriptor.
func (k *KeptGroup) Close() { _ = k.Dir.Close() }

// IsOver reports whether its time has passed.
func (k *KeptGroup) IsOver(now time.Time) bool { return k.Until > 0 && now.UnixNano() >= k.Until }

// OpenAllKept opens those in a directory that are wanted. The caller closes each.
func OpenAllKept(parent *cgroup.Group, isWanted func(*KeptGroup) bool) (all []*KeptGroup) {
	for _, dir := range KeptIn(parent) {
		k, err := OpenKept(parent, dir)
		switch {
		case err != nil: // it has just gone
		case isWanted(k):
			all = append(all, k)
		default:
			k.Close()
		}
	}
	return all
}

// KeptIn lists the groups of the calling user in a directory, as far as that is possible.
func KeptIn(parent *cgroup.Group) []string {
	children, _ := parent.Children() // none, if it was removed
	return keptOf(CallingUser(), parent, children)
}

// keepQuiet is how often in a row no member is found that has to be moved: one that is just forked is in no
// list. keepRounds bounds the race with members that fork as fast.
const (
	keepQuiet  = 2
	keepRounds = 200
)

// MoveKept moves a member to the group of kept processes, with its descendants and with the sessions that one
// of these leads, and removes the tag of all of them. What is forked meanwhile is found in another round: its
// parent is there, or was. The error is ESRCH if all of them have ended.
func (m Membership) MoveKept(head int, to *KeptGroup) error {
	moved := []int{head}
	tag := TagOf(m.of.ID)
	quiet := 0
	var errs error
	for round := 0; round < keepRounds && quiet < keepQuiet; round++ {
		inside, err := m.PIDs()
		if err != nil {
			return err
		}
		more := belongingTo(inside, moved)
		errs = nil
		quiet++
		for _, pid := range more {
			tag.Remove(pid) // before: with it a kill of the server would find the process wherever it is
			err := m.move(pid, to.Dir)
			switch {
			case err == nil:
				moved = append(moved, pid)
				quiet = 0
			case !proc.IsGone(err) && !errors.Is(err, unix.ESRCH):
				errs = errors.Join(errs, err)
			}
		}
	}
	Untag(to.Dir, tag)
	if errs == nil && !Populated(to.Dir) {
		return unix.ESRCH
	}
	return errs
}

// belongingTo returns the members that descend from some processes, or are in a session that one of these
// leads. It includes those of the processes that are members still.
func belongingTo(members, heads []int) (all []int) {
	belongs := map[int]bool{}
	for _, pid := range heads {
		belongs[pid] = true
	}
	for found := true; found; {
		found = false
		for _, pid := range members {
			if slices.Contains(all, pid) {
				continue
			}
			st, err := proc.ReadStat(pid)
			session, _ := unix.Getsid(pid) // 0, if it has ended
			if err == nil && (belongs[pid] || belongs[st.PPID] || belongs[session]) {
				belongs[pid] = true
				all = append(all, pid)
				found = true
			}
		}
	}
	return all
}

// move moves a member, or returns ESRCH if that has ended.
func (m Membership) move(pid int, to *cgroup.Group) error {
	pidfd, err := m.open(pid)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	err = to.Take(pid)
	if linux.Ended(pidfd) {
		return unix.ESRCH
	}
	return err
}

// RemoveKept removes an empty group, unless its manager does.
func (k *KeptGroup) RemoveKept() error {
	if k.Managed {
		return nil
	}
	name := k.Dir.Path()[strings.LastIndexByte(k.Dir.Path(), '/')+1:]
	return proc.IgnoreGone(k.Dir.Remove("../" + name))
}
