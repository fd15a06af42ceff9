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

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// adopter makes the directory of a scope itself, and has the manager take that over while the server runs
// already. To wait for the manager would take 6 to 16 ms, in which the kernel moves a process to the scope.
type adopter struct {
	manager
	dir *cgroup.Group // the slice's
}

// adopter is nil where the slice is not there, or we may not make a process in a directory of it: for that we
// have to be below a directory of the manager's user as well.
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
		init, err := proc.ReadCgroup(1)
		if err != nil || os.Getuid() != 0 {
			return nil
		}
		above = strings.TrimSuffix(init, "/init.scope")
	}
	dir, err := m.root.Child(strings.TrimPrefix(above+"/"+systemd.SlicePath(m.slice), "/"))
	if err != nil {
		return nil
	}
	return adopter{m, dir}
}

func (a adopter) Above() *cgroup.Group { return a.dir }

func (a adopter) Group(w Wanted) (*group.ControlGroup, error) {
	g := group.New(a.dir, w.Config.Group.ID, w.Config, a.Backend(), func(g *group.ControlGroup) {
		switch err := a.hand(g, w); {
		case err == nil:
			g.Taken(a.Backend())
		case errors.Is(err, systemd.ErrRefused):
			g.Refused(err)
		}
	})
	g.SetGuard(w.Guard)
	if err := w.Names(g.Dir+"/"+protocol.PayloadName, g.Dir+"/"+protocol.GuardsName, g.Dir); err != nil {
		return nil, err
	}
	if err := g.Make(w.Config); err != nil {
		return nil, err
	}
	w.count(g, a.Backend())
	return g, nil
}

// hand has the manager take the group over, with the guard in it: so a stop of the scope reaches that, and
// the scope ends when the guard has.
func (a adopter) hand(g *group.ControlGroup, w Wanted) error {
	if g.EndsAtOnce() {
		return errEnded
	}
	scope := a.scope(g.Dir, w.Config, []int{w.Guard.PID})
	deadline := time.Now().Add(takeWithin)
	conn, err := a.dial(g, deadline)
	if err != nil {
		return fmt.Errorf("%w: %w", systemd.ErrRefused, err)
	}
	if !group.Populated(g.Payload) {
		conn.Close()
		return errEnded
	}
	unheard := false // it may have the scope, or get it yet
	for try := 1; ; try++ {
		if err = systemd.ErrRefused; !linux.Ended(w.Guard.PIDFD) { // its pid may be another process's by now
			err = conn.Start(scope, time.Until(deadline))
		}
		exists := errors.Is(err, systemd.ErrExists)
		if exists && unheard { // it executed itself again before it answered
			err = nil
		}
		conn.Close()
		noAnswer := fmt.Errorf("no answer: %s", err) // which is no refusal
		switch {
		case err == nil:
			return g.MoveGuard()
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

// dial gives up when the server has ended, for its launcher waits until it returns.
func (a adopter) dial(g *group.ControlGroup, deadline time.Time) (*systemd.Manager, error) {
	for try := 1; ; try++ {
		conn, err := systemd.Dial(a.kind, busWithin)
		hangs := errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(deadline)
		if err == nil || !group.Populated(g.Payload) || try >= dialTries && !hangs {
			return conn, err
		}
	}
}

const (
	dialTries = 10 // where it is not there at all
	// takeWithin is how long a manager has to take over a group. Its server runs meanwhile, so nothing waits
	// for that. A manager may be busy for long: systemd 252 signals a fork bomb until none of its processes
	// is new.
	takeWithin = 2 * time.Minute
)

var errEnded = errors.New("the server has ended")
