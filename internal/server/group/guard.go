// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Guard is the guard of a server as its group shows it.
type Guard struct{ of *ControlGroup }

// Guard returns the process that stops the server: where it is, and how it comes into a scope.
func (g *ControlGroup) Guard() Guard { return Guard{g} }

// Move makes a leaf for the guard in the scope. A directory with a process cannot hand controllers
// down. If the guard was killed, the launcher forks the next one into the leaf.
func (g Guard) Move(guard freeze.Root) (err error) {
	if g.of.Guards, err = Leaf(g.of.Top()); err != nil {
		return err
	}
	if linux.Ended(guard.PIDFD) {
		g.expelStranger(guard.PID)
		return nil
	}
	err = g.of.Guards.Take(guard.PID)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// expelStranger moves a process out of the scope that the manager has put into it in the place of a guard: a
// request for a scope has the pid of the guard, and another process may have that minutes later. Where it was
// before is not known. Beside the group no stop reaches it.
func (g Guard) expelStranger(pid int) {
	b, _ := g.of.Top().Read("cgroup.procs")                              // none, if it was removed
	pids, _ := proc.ParsePIDs(b)                                         // as far as they can be read
	comm, _ := proc.Comm(pid)                                            // "", if it has ended
	if !slices.Contains(pids, pid) || names.GuardedBy(comm) == g.of.ID { // the next guard, by chance
		return
	}
	_ = g.takeBeside(pid) // a user may not move another user's
}

// takeBeside moves a process to the guards beside the group.
func (g Guard) takeBeside(pid int) error {
	parent, err := g.of.Top().Parent()
	if err != nil {
		return err
	}
	defer parent.Close()
	leaf, err := Leaf(parent)
	if err != nil {
		return err
	}
	defer leaf.Close()
	return leaf.Take(pid)
}

// PID is the guard of a group, or 0. Its cost grows with the number of guards beside the group.
func (g Guard) PID() (pid int, hidden bool) {
	beside, hidden := GuardsOf(g.of.Top(), "../"+names.GuardsName)
	pid = beside[g.of.ID]
	if pid > 0 || !g.of.Managed { // a guard that a member has pulled into its own group stops nothing
		return pid, hidden
	}
	pid, inScope := g.PIDInScope()
	return pid, hidden || inScope
}

// PIDInScope is the guard of a group that is a scope, if it is in the scope, or 0. It may be on its way: a
// manager puts it above the leaf, where it goes on.
func (g Guard) PIDInScope() (pid int, hidden bool) {
	for _, where := range []string{names.GuardsName, ".", names.GuardsName} {
		found, isHidden := GuardsOf(g.of.Top(), where)
		hidden = hidden || isHidden && where == names.GuardsName
		if found[g.of.ID] > 0 {
			return found[g.of.ID], hidden
		}
	}
	return 0, hidden
}

// Open returns a pidfd of the guard, or -1.
func (g Guard) Open() int {
	pid, _ := g.PID()
	fd, _ := unix.PidfdOpen(pid, 0)        // -1, after an error
	if again, _ := g.PID(); again != pid { // it has ended, and the pid may be another's
		_ = unix.Close(fd)
		return -1
	}
	return fd
}
