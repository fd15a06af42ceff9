// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package detach lets members out of a server that is about to be ended: daemons that others use, too, and that the
// user has named. Nothing else that mcpscope does spares a process that a server has started.
package detach

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// Server is whose members may be let out, as its supervisor knows it.
type Server struct {
	Patterns []string // of command lines: internal/glob
	Name, ID string
	Client   string // the control group of who has started the launcher
	Main     int    // the main process, which is the server, and never let out
	Members  freeze.Target
}

// Out are members that were let out. The zero value is none.
type Out struct {
	PIDs  []int
	held  map[int]int // to their pidfds
	scope string      // the group that was made for them, if one was
}

// lineMost is how much of a command line is compared, in bytes. gradle's names its daemon behind 256, and class paths
// take thousands.
const lineMost = 64 << 10

// Find lists the members that match a pattern, with all below them.
func (s Server) Find() (pids []int) {
	if len(s.Patterns) == 0 {
		return nil
	}
	members, _ := s.Members.Members() // who is not listed stays
	parent := map[int]int{}
	for _, pid := range members {
		st, err := proc.ReadStat(pid)
		if err != nil || pid == s.Main || st.State == 'Z' {
			continue
		}
		parent[pid] = st.PPID
		line, _ := proc.Cmdline(pid, lineMost) // none, of who hides it
		if glob.Find(s.Patterns, strings.Split(line, " ")) != "" || glob.Find(s.Patterns, []string{st.Comm}) != "" {
			pids = append(pids, pid)
		}
	}
	for at := 0; at < len(pids); at++ {
		for pid, of := range parent {
			if of == pids[at] && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// LetOut moves those that Find lists out of the group, without the tag by which they would be found, and calls seen of
// each before. All members are frozen meanwhile, so that who is let out has its children with it; before Linux 5.2 a child that is
// forked in that moment stays. Whoever could not be moved, or has ended, is not among those that it returns.
func (s Server) LetOut(seen func(pid int)) (out Out, err error) {
	freeze.Freeze(s.Members)
	defer func() { _ = s.Members.SetFrozen(false) }() // the ladder, which is next, thaws again
	held := map[int]int{}
	for _, pid := range s.Find() {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			held[pid] = fd
			seen(pid)
		}
	}
	tag := group.TagOf(s.ID)
	var pids []int
	for pid := range held {
		tag.Remove(pid)
		pids = append(pids, pid)
	}
	err = s.move(pids)
	inside, failed := s.Members.Members()
	out.held = map[int]int{}
	for pid, fd := range held {
		if failed != nil || linux.Ended(fd) || slices.Contains(inside, pid) {
			_ = tag.Put(pid, fd) // it is ended with the others
			_ = unix.Close(fd)   // a pidfd has nothing to flush
			continue
		}
		out.held[pid] = fd
		out.PIDs = append(out.PIDs, pid)
		if where, _, err := proc.ReadCgroup(pid); err == nil && strings.HasPrefix(path.Base(where), protocol.DetachedPrefix) {
			out.scope = where
		}
	}
	slices.Sort(out.PIDs)
	return out, errors.Join(err, failed)
}

// Any tells whether anybody was let out.
func (o *Out) Any() bool { return len(o.held) > 0 }

// Has tells whether a child of the calling process was let out, or was started by one that was. The pid of a child is nobody else's.
func (o *Out) Has(pid int) bool {
	if fd, is := o.held[pid]; is {
		return !linux.Ended(fd)
	}
	where, _, err := proc.ReadCgroup(pid)
	return err == nil && o.scope != "" && where == o.scope
}

// move: where no manager makes a scope for them they go where the client is.
func (s Server) move(pids []int) error {
	if len(pids) == 0 {
		return nil
	}
	err := s.moveByManager(pids)
	if err == nil {
		return nil
	}
	if other := s.moveToClient(pids); other != nil {
		return errors.Join(err, other)
	}
	return nil
}

func (s Server) moveToClient(pids []int) error {
	at, err := group.OwnPosition()
	if err != nil {
		return err
	}
	defer at.Root.Close()
	to, err := at.Root.Child("." + s.Client)
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
