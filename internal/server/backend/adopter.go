// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/hold"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// adopter makes the directory of a scope itself, and has the manager take that over while the server runs already. A manager that is
// asked first needs 6 to 16 ms, in which the kernel moves a process to the scope.
type adopter struct {
	manager
	dir *cgroup.Group // the slice's
}

// adopter is nil where the slice is not there, or we may not make a process in a directory of it: for that we have to be below
// a directory of the manager's user as well.
func (m manager) adopter(own string) Place {
	above := ""
	switch m.kind {
	case systemd.User:
		service := "/user@" + fmt.Sprint(os.Getuid()) + ".service"
		before, _, inside := strings.Cut(own+"/", service+"/")
		if !inside {
			return nil
		}
		above = before + service
	default:
		init, _, err := proc.ReadCgroup(1)
		if err != nil || os.Getuid() != 0 {
			return nil
		}
		above = strings.TrimSuffix(init, "/init.scope")
	}
	dir, err := m.root.Child(strings.TrimPrefix(above+"/"+systemd.SlicePath(m.slice), "/"))
	if err != nil {
		return nil
	}
	kill, err := dir.OpenKill() // Linux 5.14: without it the server waits for its supervisor anyway
	if err != nil {
		_ = dir.Close() // a directory
		return nil
	}
	_ = unix.Close(kill) // it was not written to
	return adopter{m, dir}
}

func (a adopter) NeedsProcess() bool { return false }

func (a adopter) Group(facts *protocol.Config, _ int) (group.Launched, error) {
	g, err := group.MakeGroup(a.dir, facts, true, func(g *group.ControlGroup) {
		switch err := a.hand(g, facts); {
		case err == nil:
			g.Taken(a.Backend())
		case errors.Is(err, systemd.ErrRefused):
			g.Refused(err)
		}
	})
	if err != nil {
		return nil, err
	}
	g.CountMemory(a.Backend())
	return g, nil
}

// hand has the manager take the group over. What it moves there is a process that is there already and does nothing.
func (a adopter) hand(g *group.ControlGroup, facts *protocol.Config) error {
	if facts.Place == nil && g.EndsAtOnce() { // otherwise its supervisor has waited for that
		return errEnded
	}
	held, err := hold.In(g.Top)
	if err != nil {
		return fmt.Errorf("%w: %w", systemd.ErrRefused, err)
	}
	defer held.End()
	scope := a.scope(g.Dir, facts, []int{held.PID})
	deadline := time.Now().Add(takeWithin)
	conn, err := a.dial(g, deadline)
	if err != nil {
		return fmt.Errorf("%w: %w", systemd.ErrRefused, err)
	}
	if !g.Ask() {
		conn.Close()
		return errEnded
	}
	unheard := false // it may have the scope, or get it yet
	for try := 1; ; try++ {
		if err = systemd.ErrRefused; !linux.Ended(held.PIDFD) { // by now its number may be somebody else's
			err = conn.Start(scope, time.Until(deadline))
		}
		exists := errors.Is(err, systemd.ErrExists)
		if exists && unheard { // it executed itself again before it answered
			err = nil
		}
		if err == nil {
			stir(g, conn)
		}
		conn.Close()
		noAnswer := fmt.Errorf("no answer: %s", err) // which is no refusal
		switch {
		case err == nil:
			return nil
		case unheard || errors.Is(err, context.DeadlineExceeded):
			return noAnswer
		case errors.Is(err, systemd.ErrRefused):
			return err
		case try == scopeTries:
			return noAnswer
		default:
			unheard = !exists
		}
		if conn, err = a.dial(g, deadline); err != nil {
			return err
		}
	}
}

// notifiedWithin is twice as long as the kernel may keep a change of cgroup.events to itself (10 ms, kernel/cgroup/cgroup.c).
const notifiedWithin = 20 * time.Millisecond

// stir has the manager hear that the group is empty, where it has not: a process that was dead, or just dying, may have been all that it moved
// there, and no event comes after that (seen with systemd 252). Where it has, it is about to remove the directory, and nobody may be in
// its way.
func stir(g *group.ControlGroup, conn *systemd.Manager) {
	if group.Populated(g.Top) {
		return // an event comes when it is not
	}
	time.Sleep(notifiedWithin) // until the manager can have heard: nothing tells that to us
	if active, err := conn.Active(g.Dir, busWithin); err != nil || !active {
		return
	}
	if held, err := hold.In(g.Top); err == nil { // otherwise it has heard by now
		held.End()
	}
}

// dial gives up when the server has ended, for its launcher waits until it returns.
func (a adopter) dial(g *group.ControlGroup, deadline time.Time) (*systemd.Manager, error) {
	for try := 1; ; try++ {
		conn, err := systemd.Dial(a.kind, busWithin)
		hangs := errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(deadline)
		if err == nil || !g.Guarded() || try >= dialTries && !hangs {
			return conn, err
		}
	}
}

const (
	dialTries = 10 // where it is not there at all
	// takeWithin is how long a manager has to take over a group. Its server runs meanwhile, so nobody waits for that. A manager may be
	// busy for long: systemd 252 signals a fork bomb until none of its processes is new. If it has read the request by the time that
	// we end the process which it was to move, it keeps a failed scope, which it can't stop.
	takeWithin = 2 * time.Minute
)

var errEnded = errors.New("the server has ended")

// StartsEarly tells whether servers that nobody has asked this backend for by name start before a manager has their scope, in the
// default slice.
func StartsEarly(b protocol.Backend) bool {
	here, err := hierarchy.OwnPosition()
	if err != nil {
		return false
	}
	defer here.Root.Close()
	places, err := Location{Position: here, Slice: protocol.DefaultSlice, Early: true}.Places(b)
	return err == nil && len(places) > 1
}
