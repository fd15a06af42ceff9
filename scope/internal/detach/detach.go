// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package detach lets members out of a server that is about to be ended: daemons that others use, too, and that the
// user has named. Nothing else that mcpscope does spares a process that a server has started.
package detach

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/hierarchy"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// Server is whose members may be let out, as its supervisor knows it.
type Server struct {
	Patterns []string // of command lines: internal/glob
	Name, ID string
	Outside  string // the control group to which they go where no manager makes one
	Main     int    // the main process, which is the server, and never let out
	Members  freeze.Target
}

// Member is one that matches, or is below one.
type Member struct {
	PID           int
	Name, Command string
}

// Out are members that were let out. The zero value is none.
type Out struct {
	All  []Member
	held map[int]int // to their pidfds
}

// lineMost is how much of a command line is compared, in bytes. gradle's names its daemon behind 256, and class paths
// take thousands of bytes.
const lineMost = 64 << 10

// Find lists the members that match a pattern, with all below them. It fails at the deadline: a process can back its command
// line by a file system that hangs, and nothing that a member does may keep its server from being ended.
func (s Server) Find(deadline time.Time) ([]Member, error) {
	if len(s.Patterns) == 0 {
		return nil, nil
	}
	found := make(chan []Member, 1)
	go func() { found <- s.find(deadline) }()
	select {
	case all := <-found:
		if time.Now().Before(deadline) {
			return all, nil
		}
	case <-time.After(time.Until(deadline)):
	}
	return nil, errors.New("the command lines of its processes could not be read in time")
}

func (s Server) find(deadline time.Time) (found []Member) {
	members, _ := s.Members.Members() // who is not listed stays
	parent, all := map[int]int{}, map[int]Member{}
	for _, pid := range members {
		if time.Now().After(deadline) {
			return nil
		}
		st, err := proc.ReadStat(pid)
		if err != nil || pid == s.Main || st.State == 'Z' {
			continue
		}
		parent[pid] = st.PPID
		all[pid] = Member{PID: pid, Name: st.Comm}
		line, _ := proc.Cmdline(pid, lineMost) // none, of who hides it
		if glob.Find(s.Patterns, strings.Split(line, " ")) != "" || glob.Find(s.Patterns, []string{st.Comm}) != "" {
			found = append(found, Member{PID: pid, Name: st.Comm, Command: strings.Clone(line[:min(len(line), protocol.CommandMost)])})
			delete(all, pid)
		}
	}
	for at := 0; at < len(found); at++ {
		for pid, below := range all {
			if parent[pid] == found[at].PID {
				found = append(found, below)
				delete(all, pid)
			}
		}
	}
	return found
}

// LetOut moves those that Find lists out of the group, without the tag by which they would be found. All members are
// frozen meanwhile, so that who is let out has its children with it; before Linux 5.2 a child that is forked in that
// moment stays. Whoever could not be moved, or has ended, is not among those that it returns.
func (s Server) LetOut(deadline time.Time) (out Out, err error) {
	freeze.Freeze(s.Members)
	defer func() { _ = s.Members.SetFrozen(false) }() // the ladder, which is next, thaws again
	found, err := s.Find(deadline)
	if err != nil {
		return out, err
	}
	held := map[int]int{}
	for _, m := range found {
		if fd, err := unix.PidfdOpen(m.PID, 0); err == nil {
			held[m.PID] = fd
		}
	}
	inside, err := s.Members.Members() // who is still listed is who was held
	if err != nil {
		inside = nil
	}
	tag := group.TagOf(s.ID)
	var pids []int
	for pid, fd := range held {
		if !slices.Contains(inside, pid) {
			_ = unix.Close(fd) // a pidfd has nothing to flush
			delete(held, pid)
			continue
		}
		pids = append(pids, pid)
		tag.LetOut(pid)
	}
	err = errors.Join(err, s.move(pids, deadline))
	inside, failed := s.Members.Members()
	out.held = map[int]int{}
	for _, m := range found {
		pid := m.PID
		fd, is := held[pid]
		if !is {
			continue
		}
		if failed != nil || linux.Ended(fd) || slices.Contains(inside, pid) {
			_ = tag.Put(pid, fd) // it is ended with the others
			_ = unix.Close(fd)   // as above
			continue
		}
		out.held[pid] = fd
		out.All = append(out.All, m)
	}
	return out, errors.Join(err, failed)
}

// Any tells whether anybody was let out.
func (o *Out) Any() bool { return len(o.held) > 0 }

// Has tells whether a child of the calling process was let out, or was started by one that was. The pid of a child is
// nobody else's. Where nobody was let out, nobody can have been started by one.
func (o *Out) Has(pid int) bool {
	if fd, is := o.held[pid]; is {
		return !linux.Ended(fd)
	}
	return o.Any() && freeze.WasLetOut(pid)
}

// move: where no manager makes a scope for them in time they go where the client is.
func (s Server) move(pids []int, deadline time.Time) error {
	if len(pids) == 0 {
		return nil
	}
	err := s.moveByManager(pids, deadline)
	if err == nil {
		return nil
	}
	if other := s.moveOutside(pids); other != nil {
		return errors.Join(err, other)
	}
	return nil
}

func (s Server) moveOutside(pids []int) error {
	if s.Outside == "" { // which would be the root
		return errors.New("the client's control group is not known")
	}
	at, err := hierarchy.OwnPosition()
	if err != nil {
		return err
	}
	defer at.Root.Close()
	to, err := at.Open(s.Outside)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, pid := range pids {
		if err := to.Take(pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move process %d to %s: %w", pid, to, err)
		}
	}
	return nil
}
