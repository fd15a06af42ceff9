// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
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
// the scope ends when the guard has. A server whose manager does not answer stays in a plain directory.
func (a adopter) hand(g *group.ControlGroup, w Wanted) error {
	if g.EndsAtOnce() {
		return errEnded
	}
	conn, err := systemd.Dial(a.kind, takeWithin)
	if err != nil {
		return fmt.Errorf("%w: %w", systemd.ErrRefused, err)
	}
	defer conn.Close()
	if !group.Populated(g.Payload) || linux.Ended(w.Guard.PIDFD) { // its pid may be another process's by now
		return errEnded
	}
	if err := conn.Start(a.scope(g.Dir, w.Config, []int{w.Guard.PID}), takeWithin); err != nil {
		return err
	}
	return g.MoveGuard()
}

// takeWithin is how long a manager has to take over a group. Its server runs meanwhile, so nothing waits for
// that. A manager may be busy for long: systemd 252 signals a fork bomb until none of its processes is new.
const takeWithin = 2 * time.Minute

var errEnded = errors.New("the server has ended")
