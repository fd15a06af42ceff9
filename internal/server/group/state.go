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

// Engine is the container engine that runs the server, or "" for another user's server. The server can
// write the attribute, so only known engines count.
func (g *ControlGroup) Engine() string {
	engine := g.Facts().Engine
	if g.owner() != os.Getuid() || protocol.EngineOf([]string{engine, "run"}) != engine {
		return ""
	}
	return engine
}

// ErrOthers: only root sees other users' servers.
func ErrOthers() error { return fmt.Errorf("look at other users' servers: %w", unix.EPERM) }

// GuardsOf lists the processes in a leaf of guards by the id of their server. A member can move there and
// take such a name, so it skips a process with the tag of that id. hidden reports invisible processes: with
// hidepid=2 a guard is one, and all are in another pid namespace.
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
		case pid == 0 || err != nil && !errors.Is(err, proc.ErrGone):
			hidden = true
		case is && !TagOf(id).On(pid):
			byID[id] = pid
		}
	}
	return byID, hidden
}

// GuardPID is the guard of a group, or 0.
func (g *ControlGroup) GuardPID() (pid int, hidden bool) {
	parent, err := g.Top.Parent()
	if err != nil {
		return 0, false
	}
	defer parent.Close()
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

// OpenGuard returns a pidfd of the guard, or -1.
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

// Populated takes an unreadable state for populated: a member that does not exist costs time, and the
// opposite mistake leaves a process alive.
func Populated(g freeze.Target) bool {
	st, err := g.State()
	return err != nil || st.Populated
}

// IgnoreGone: a group can end at any time.
func IgnoreGone(err error) error {
	if protocol.IsGone(err) {
		return nil
	}
	return err
}

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

// Below is the tree of a guard's descendants, but for the calling process: a later brain is a child of the
// guard.
func Below(guard freeze.Root) *freeze.Tree {
	own := os.Getpid()
	spare := func(st proc.Stat) bool { return st.PID == own }
	return &freeze.Tree{Root: &guard, Owner: os.Getuid(), Spare: spare}
}

// Identity is a process until the machine stops: the pid alone is reused.
type Identity struct {
	PID       int
	Start     uint64 // clock ticks after boot
	Namespace uint64 // the pid namespace that numbers it so
}

func Identify(pid int) (Identity, error) {
	st, err := proc.ReadStat(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: st.StartTime, Namespace: PIDNamespace()}, nil
}

// Alive reports whether the process may run. A pid of another pid namespace is unknown, so it may.
func (i Identity) Alive() bool {
	if i.Namespace != PIDNamespace() {
		return true
	}
	st, err := proc.ReadStat(i.PID)
	if err != nil {
		return !errors.Is(err, proc.ErrGone) // it is hidden (hidepid=2)
	}
	return st.StartTime == i.Start && st.State != 'Z'
}

func (i Identity) String() string { return fmt.Sprintf("%d %d %d", i.PID, i.Start, i.Namespace) }

func ParseIdentity(s string) (i Identity, ok bool) {
	_, err := fmt.Sscan(s, &i.PID, &i.Start, &i.Namespace)
	return i, err == nil
}
