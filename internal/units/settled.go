// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// Settled is a gateway some time after its start.
type Settled struct {
	Containment
	MainPID int
	Servers int // as many as it has started by then
}

// A gateway starts its first servers within a second or two, and often several in a row.
const (
	serversWithin = 3 * time.Second        // for the first server
	noMoreWithin  = 600 * time.Millisecond // after the last one
	countEvery    = 100 * time.Millisecond
)

// AwaitServers waits for the first servers of a gateway that was just started, and then reads its state
// again. The error is of a gateway that has ended meanwhile. count counts its servers.
func (g Gateway) AwaitServers(count func() int) (Settled, error) {
	manager := systemd.Own()
	w := settling{
		count: count,
		read:  func() (systemd.Service, error) { return readService(manager, g.Name.Full) },
		judge: func(s systemd.Service) (Containment, error) { return containmentOf(manager, s) },
	}
	settled, err := w.await()
	return settled, g.withUndo(err)
}

// settling has the sources of AwaitServers.
type settling struct {
	count func() int
	read  func() (systemd.Service, error)
	judge func(systemd.Service) (Containment, error)
}

func (w settling) await() (Settled, error) {
	first, err := w.read()
	if err != nil {
		return Settled{}, err
	}
	servers := w.count()
	began := time.Now()
	lastChange := began
	for {
		isStable := servers > 0 && time.Since(lastChange) >= noMoreWithin
		if isStable || time.Since(began) >= serversWithin {
			return w.settle(first, servers)
		}
		time.Sleep(countEvery)
		now, err := w.read()
		if err != nil {
			return Settled{}, err
		}
		hasEnded := now.MainPID == 0 && !changesState(now)
		if hasEnded || now.Invocation != first.Invocation {
			return w.settle(first, servers)
		}
		counted := w.count()
		if counted != servers {
			servers = counted
			lastChange = time.Now()
		}
	}
}

// settle reads the service for the last time.
func (w settling) settle(first systemd.Service, servers int) (Settled, error) {
	now, err := w.read()
	if err != nil {
		return Settled{}, err
	}
	if now.Invocation != first.Invocation {
		const text = "%s has ended soon after its start, and was started again"
		return Settled{}, fmt.Errorf(text, now.Name)
	}
	c, err := w.judge(now)
	if err != nil {
		return Settled{}, err
	}
	return Settled{Containment: c, MainPID: now.MainPID, Servers: servers}, nil
}
