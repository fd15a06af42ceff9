// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Subject of an orphan, by its attributes.
func (g *ControlGroup) Subject() protocol.Subject {
	attr := func(name string) string {
		value, _, _ := g.Payload.Attr(name) // none, if it can't be read
		return value
	}
	s := protocol.Subject{ID: g.ID, Name: attr(AttrName), Client: protocol.ParseClient(attr(AttrClient))}
	s.Client.Unit = attr(AttrUnit)
	return s
}

// Engine is the container engine that runs the server, "" if none does or it is another user's. The server
// itself may have written which one that is, so it is one of those that are known.
func (g *ControlGroup) Engine() string {
	engine, is, _ := g.Payload.Attr(AttrEngine) // none, if it can't be read
	if !is || g.owner() != os.Getuid() || protocol.EngineOf([]string{engine, "run"}) != engine {
		return ""
	}
	return engine
}

// ErrOthers is what another user's servers are to anyone but root. It is made when it is needed: to format it
// takes longer than any other initialization of ours, and every server would pay for it twice.
func ErrOthers() error { return fmt.Errorf("look at other users' servers: %w", unix.EPERM) }

// GuardsOf lists the processes in a leaf of guards by the id of the server that each guards. A member can go there and call
// itself so; those with the tag of that id are left out. hidden are processes that can't be looked at: with hidepid=2 a guard
// is one, and all are in another pid namespace.
func GuardsOf(leaf *cgroup.Group) (byID map[string]int, hidden bool) {
	b, err := leaf.Read("cgroup.procs")
	if err != nil {
		return nil, !protocol.IsGone(err)
	}
	pids, _ := proc.ParsePIDs(b) // as far as they can be read
	byID = map[string]int{}
	for _, pid := range pids {
		comm, err := proc.Comm(pid)
		id, is := strings.CutPrefix(comm, protocol.GroupPrefix)
		switch {
		case pid == 0 || err != nil && !dead(pid):
			hidden = true
		case is && !TagOf(id).On(pid):
			byID[id] = pid
		}
	}
	return byID, hidden
}

// dead tells a process that has ended from one that is hidden.
func dead(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		_ = unix.Close(fd) // a pidfd has nothing to flush
	}
	return err == unix.ESRCH
}

// GuardPID is the guard of one group, 0 if there is none.
func (g *ControlGroup) GuardPID() (pid int, hidden bool) {
	parent := g.Parent
	if parent == nil {
		var err error
		if parent, err = g.Top.Parent(); err != nil {
			return 0, false
		}
		defer parent.Close()
	}
	for _, in := range []*cgroup.Group{g.Top, parent} {
		leaf, err := in.Child(protocol.GuardsName)
		if err != nil {
			continue
		}
		all, some := GuardsOf(leaf)
		_ = leaf.Close() // a directory
		hidden = hidden || some
		if pid = all[g.ID]; pid > 0 {
			return pid, hidden
		}
	}
	all, _ := GuardsOf(g.Top) // a manager has just put it there
	return all[g.ID], hidden
}

// OpenGuard is a pidfd of it, -1 if there is none.
func (g *ControlGroup) OpenGuard() int {
	pid, _ := g.GuardPID()
	if pid == 0 {
		return -1
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	if again, _ := g.GuardPID(); again != pid { // it has ended, and the pid may be another's
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

// Populated takes what can't be read for populated: to believe in a member that is not
// there costs time, the other mistake costs a survivor.
func Populated(g freeze.Target) bool {
	st, err := g.State()
	return err != nil || st.Populated
}

// IgnoreGone: a group that ends while it is looked at is no error.
func IgnoreGone(err error) error {
	if protocol.IsGone(err) {
		return nil
	}
	return err
}

// IgnoreBusy: it has a member after all, or somebody has made a directory in it.
func IgnoreBusy(err error) error {
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// DescribeStuck is for people.
func DescribeStuck(all []freeze.Stuck) string {
	var parts []string
	for _, m := range all {
		text := fmt.Sprintf("process %d (%s)", m.PID, m.Name)
		switch {
		case m.State != 'D':
			text += ", not ended by SIGKILL"
		case m.Wchan != "":
			text += ", sleeping uninterruptibly in " + m.Wchan
		default:
			text += ", sleeping uninterruptibly"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func IsEmpty(s cgroup.State) bool { return !s.Populated }
