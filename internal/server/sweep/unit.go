// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"os"
	"sync"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/orphan"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// unitStop is the stop of a unit, seen from its ExecStopPost=. systemd runs that as soon as the main process
// has exited. Then it kills all that is left in the unit: servers in the stop, and the watcher that would
// write their ends. Servers in scopes are still in their stop, too, when it starts the unit again.
type unitStop struct {
	unit  string
	asks  time.Time // then servers get a request to stop
	ends  time.Time // before systemd loses patience
	kills bool      // systemd kills all processes of the unit: a server without a request, too
}

// UnitStop is how a manager stops a service.
type UnitStop struct {
	KillMode string        // KillMode=, or "" if it is not known
	Timeout  time.Duration // TimeoutStopSec=, or 0 for none, or one that is not known
}

const unitKillWithin = time.Minute // for a unit without a timeout, or with a long one

// findUnitStop returns nil in a process that is not in the unit.
func (f SweepFilter) findUnitStop() *unitStop {
	unit := f.Unit
	root, path, err := group.Position(0)
	if err != nil {
		return nil // there are no groups
	}
	_ = root.Close() // a directory
	own, kind, _ := systemd.UnitOf(path, os.Getuid())
	if own != unit {
		return nil
	}
	s := &unitStop{unit: unit}
	how := UnitStop{}
	if f.UnitStop != nil {
		how = f.UnitStop(kind, unit)
	}
	s.kills = how.KillMode == "control-group" || how.KillMode == "mixed"
	timeout := unitKillWithin
	if how.Timeout > 0 {
		timeout = min(how.Timeout, unitKillWithin)
	}
	s.asks = time.Now().Add(timeout / 2)
	s.ends = time.Now().Add(timeout * 3 / 4)
	return s
}

// await waits until the servers of the unit have ended, of that choice of users, if their client is dead.
func (u *unitStop) await(s *sweeper, users group.Users) error {
	var all sync.WaitGroup
	visit := group.Visit{Users: users}
	visit.Groups = func(_ string, parent *cgroup.Group, dirs []string) error {
		seen := orphan.TakeCensus(parent, orphan.NewLocks())
		for _, dir := range dirs {
			isSuspect, err := s.tend(parent, dir, seen)
			if isSuspect || err != nil { // the sweep stops it, or has the error, too
				continue
			}
			g, _ := openGroup(parent, dir)
			if g == nil { // it was removed
				continue
			}
			all.Go(func() {
				defer g.Close()
				u.awaitServer(g)
			})
		}
		return nil
	}
	err := visit.All()
	all.Wait()
	return err
}

// awaitServer waits for a server whose watcher is about to stop it. If that takes too long, such as for one
// whose stdin a tool holds open, it asks for the stop: systemd would kill the server in any case.
func (u *unitStop) awaitServer(g *group.ControlGroup) {
	if g.IsWithoutPayload() { // its start may have a client that lives
		return
	}
	of := g.Attributes().Facts()
	client := protocol.Identity{
		PID: of.Client.PID, Start: of.Client.Start, Namespace: group.PIDNamespace(),
	}
	if of.Client.Unit != u.unit || group.Alive(client) {
		return
	}
	stop := protocol.EndWithin(&protocol.Config{Facts: of})
	asks := time.Now().Add(max(of.Policy.EOFGrace, 0) + stop)
	if asks.After(u.asks) {
		asks = u.asks
	}
	ended, err := freeze.AwaitEmpty(g.Top(), asks)
	if !ended && err == nil && u.kills && of.Guard.PID > 0 {
		if g.Attributes().AskToStop() == nil {
			ended, _ = freeze.AwaitEmpty(g.Top(), u.ends) // an error: it was removed
		}
	}
	if ended {
		g.Manager().AwaitRemoval() // after the watcher has written its end
	}
}
