// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/roof"
)

const (
	scopeTries = 3
	// takeWithin is how long a manager has to take over a group. Its server runs meanwhile, so nothing waits
	// for that. A manager may be busy for long: systemd 252 signals a fork bomb until none of its processes
	// is new.
	takeWithin = 2 * time.Minute
)

// managers of the backends that have scopes for groups.
var managers = map[names.Backend]systemd.Kind{
	names.SystemdSystem: systemd.System, names.SystemdUser: systemd.User,
}

// kind is "" without a manager.
func (p Place) kind() systemd.Kind { return managers[p.Backend] }

// FindManager says why no manager can start anything for this user.
func FindManager() error { return systemd.Present(systemd.Own()) }

// ErrElsewhere: the manager of the user may end before the client does.
var ErrElsewhere = errors.New("neither below the manager of its user nor in a login session of that user")

// checkManager finds out, without a connection, whether there is such a manager, and whether it keeps what a
// client at that place in the hierarchy keeps.
func checkManager(kind systemd.Kind, client string) error {
	if err := systemd.Present(systemd.System); err != nil { // no user has one without it
		return err
	}
	init, _ := proc.ReadCgroup(1) // "" with hidepid=2
	if strings.HasPrefix(init, "/..") {
		return fmt.Errorf("%w: it is in another cgroup namespace", systemd.ErrOutside)
	}
	if kind == systemd.System {
		return checkJob(client)
	}
	if where, _ := roof.Find(client, init, os.Getuid()); where == roof.Elsewhere {
		return fmt.Errorf("the client is in %s, %w", client, ErrElsewhere)
	}
	return systemd.Present(systemd.User)
}

// ErrInJob: what a manager or root makes elsewhere has neither the limits nor the accounting of the job.
var ErrInJob = errors.New("a job of Slurm, which a server must not leave")

// checkJob returns an error for a client that is in a job.
func checkJob(client string) error {
	if roof.InJob(client) {
		return fmt.Errorf("the client is in %s, %w", client, ErrInJob)
	}
	return nil
}

// ownSlice is nil where the slice is not there, or we may not make a process in a directory of it: for that
// we have to be below a directory of the manager's user as well.
func (p Place) ownSlice() *cgroup.Group {
	init, _ := proc.ReadCgroup(1) // "" with hidepid=2
	where, manager := roof.Find(p.Path, init, os.Getuid())
	isBelow := where == roof.BelowManager
	if p.kind() == systemd.System {
		found, isManager := roof.SystemManager(init)
		manager = found
		isBelow = isManager && os.Getuid() == 0
	}
	if !isBelow {
		return nil
	}
	dir, _ := p.Root.Child(strings.TrimPrefix(path.Join(manager, names.Slice), "/"))
	return dir
}

// managerPath is the cgroup of the manager for a client at that place, from the root of the mount.
func managerPath(kind systemd.Kind, client string) string {
	init, _ := proc.ReadCgroup(1) // "" with hidepid=2
	base, _ := roof.SystemManager(init)
	if kind == systemd.System {
		return base
	}
	where, manager := roof.Find(client, init, os.Getuid())
	if where == roof.BelowManager {
		return manager
	}
	return fmt.Sprintf("%s/user.slice/user-%[2]d.slice/user@%[2]d.service", base, os.Getuid())
}

// Adoption returns what has a manager take over a group that we made, with the guard in it: so a stop of the
// scope reaches that, and the scope ends when the guard has. A server whose manager does not have the scope
// stays in a plain directory. It returns nil for a group that is no manager's, or is a scope already.
func Adoption(c *protocol.Config, guard freeze.Root) func(*group.ControlGroup) {
	kind := managers[c.Group.Backend]
	isGroupForManager := kind != "" && c.Group.Managed && !c.Group.Scope
	if !isGroupForManager || guard.PIDFD < 0 { // without it the pid may be another process's
		return nil
	}
	return func(g *group.ControlGroup) { adopt(g, kind, c, guard) }
}

func adopt(g *group.ControlGroup, kind systemd.Kind, c *protocol.Config, guard freeze.Root) {
	ends := time.Now().Add(policy.EndsWithin) // before a scope is worth a request
	if empty, err := freeze.AwaitEmpty(g.Payload, ends); err == nil && empty {
		return
	}
	conn, err := systemd.Dial(kind, takeWithin)
	if err != nil {
		g.Attributes().Refused(err)
		return
	}
	defer conn.Close()
	if !group.Populated(g.Payload) || linux.Ended(guard.PIDFD) { // its pid may be another process's by now
		return
	}
	// The pid is the guard's while the request is sent. A busy manager may handle it when the guard has ended
	// and another process has the number: Guard.Move moves that process out. PIDFDs= would need systemd 255.
	err = conn.Start(scope(g.Dir, names.Slice, kind, c, guard.PID))
	if err == nil || errors.Is(err, systemd.ErrExists) { // a helper that was killed has requested it
		err = g.Guard().Move(guard)
	}
	switch {
	case err == nil: // from now on the directory may hand controllers down; a limit reports the error
		_ = cgroup.EnableController(g.Payload, group.MemoryFile, g.Limits().OwnedAbove())
	case errors.Is(err, systemd.ErrRefused):
		g.Attributes().Refused(err)
	}
}

// makeScope makes and arms the group of a server that its client has started, in a scope.
func makeScope(p Place, w Wanted) (*group.ControlGroup, error) {
	g, err := startScope(p, w.Config, w.Guard)
	if err != nil {
		return nil, err
	}
	if err = g.Arm(w.Config); err == nil {
		err = g.Guard().Move(w.Guard)
	}
	if err != nil { // its guard is dismissed, and then systemd removes the scope
		g.Close()
	}
	return g, err
}

// MakeScope makes the group of a server that raw code starts, and moves to it the main process, which waits.
// It enables the controllers of these limits, and returns the path of the payload. Raw code locks, arms and
// limits that.
func MakeScope(
	p Place, c *protocol.Config, guard freeze.Root, main int, limits []cgroup.Limit,
) (payload string, err error) {
	g, err := startScope(p, c, guard, main)
	if err != nil {
		return "", err
	}
	defer g.Close()
	if err := g.MakePayload(); err != nil {
		return "", err
	}
	if err := g.Guard().Move(guard); err != nil {
		return "", err
	}
	// a directory with a process cannot hand controllers down
	if err := g.Payload.Take(main); err != nil {
		return "", err
	}
	for _, l := range limits {
		if err := cgroup.EnableController(g.Payload, l.File, g.Limits().OwnedAbove()); err != nil {
			return "", group.LimitError(l, err)
		}
	}
	_ = cgroup.EnableController(g.Payload, group.MemoryFile, g.Limits().OwnedAbove()) // it is not counted
	return g.Payload.Path(), nil
}

// startScope starts the scope, bound to the client's unit, with the guard and other processes in it.
func startScope(
	p Place, c *protocol.Config, guard freeze.Root, others ...int,
) (*group.ControlGroup, error) {
	conn, err := systemd.DialInTurn(p.kind(), policy.ManagerWithin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	g := group.New(c.Group.ID, c, p.Backend, true)
	g.Scope = true
	g.InSession = p.Session != nil
	wanted := scope(g.Dir, sliceOf(p.Session), p.kind(), c, append([]int{guard.PID}, others...)...)
	where, err := enterScope(conn, wanted, guard.PID)
	if err != nil {
		return nil, err
	}
	return g, g.Manager().OpenScope(p.Root, strings.TrimPrefix(where, "/"))
}

// enterScope starts a scope until the guard is in it, and returns its path. systemd has been seen to stop a
// new scope as empty at once (systemd #36781).
func enterScope(conn *systemd.Manager, wanted systemd.Scope, guard int) (where string, err error) {
	for range scopeTries {
		err = conn.Start(wanted)
		if err != nil {
			return "", err
		}
		where, err = proc.ReadCgroup(guard)
		if err != nil { // hidepid=2 hides the guard, which refuses to be traced (proc(5))
			where, err = conn.Property(wanted.Name, "Scope", "ControlGroup")
		}
		if err != nil {
			return "", err
		}
		if path.Base(where) == wanted.Name {
			return where, nil
		}
	}
	return "", fmt.Errorf("its first process is not in the scope %s, but in %s", wanted.Name, where)
}

func scope(name, slice string, kind systemd.Kind, c *protocol.Config, pids ...int) systemd.Scope {
	signal := names.StopSignal // to the guard
	if c.StartedByClient {
		signal = unix.SIGTERM // to the members: the scope has no guard
	}
	return systemd.Scope{
		Name: name, Slice: slice,
		Description: "MCP server " + c.Facts.Name, PIDs: pids,
		TimeoutStop: stopTimeout(c), KillSignal: int(signal), Client: clientUnit(c.Position, kind),
	}
}

// clientUnit is the unit of a client at that place in the hierarchy, if it is of the same manager.
func clientUnit(path string, kind systemd.Kind) string {
	if unit, of, ok := systemd.UnitOf(path, os.Getuid()); ok && of == kind {
		return unit
	}
	return ""
}

// stopTimeout lets a helper finish the stop before systemd kills.
func stopTimeout(c *protocol.Config) time.Duration {
	if c.Facts.Policy.TermGrace < 0 {
		return math.MaxInt64
	}
	return protocol.EndWithin(c)
}

// Attach has the manager move a process to the payload that its scope is from.
func Attach(g *group.ControlGroup, pid int) error { return attach(g, names.PayloadName, pid) }

// AttachGuard has the manager move a guard to the leaf of its scope.
func AttachGuard(g *group.ControlGroup, pid int) error { return attach(g, names.GuardsName, pid) }

func attach(g *group.ControlGroup, leaf string, pid int) error {
	conn, err := systemd.Dial(managers[g.Backend], policy.ManagerWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Attach(g.Dir, "/"+leaf, []int{pid})
}

// moveToScope moves processes to a scope without a server in it, which the client's unit is stopped before.
func (p Place) moveToScope(pids []int) error {
	conn, err := systemd.Dial(p.kind(), policy.ManagerWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Start(systemd.Scope{
		Name: "mcpscope-gateway-" + names.NewID() + names.ScopeSuffix, Slice: names.Slice,
		Description: "mcpscope gateway", PIDs: pids, TimeoutStop: policy.KillWithin,
		KillSignal: int(unix.SIGWINCH), Client: clientUnit(p.Path, p.kind()), Outlives: true,
	})
}
