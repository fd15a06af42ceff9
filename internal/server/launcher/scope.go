// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// MakeScope has a manager make the group of a server, whose raw launcher waits for this process: see
// guard.Start. guard is a pidfd of the guard, and main the pid of the main process, which waits as well. The
// page gets the path of the payload, or the error. It returns the exit status.
func MakeScope(memory, guard, main int) int {
	on, err := page.Open(memory)
	if err != nil {
		return 1
	}
	payload, err := makeScope(on, freeze.Root{PID: int(on.ByGuard.GuardPID), PIDFD: guard}, main)
	if err == nil && len(payload) >= len(on.Plan.Place.Payload) {
		err = fmt.Errorf("open %s: %w", payload, unix.ENAMETOOLONG)
	}
	if errors.Is(err, errForMain) {
		return 1
	}
	if err != nil {
		tellScopeError(&on.Plan.Failed, err)
		return 1
	}
	copy(on.Plan.Place.Payload[:], payload)
	return 0
}

// errForMain is for a backend that main, too, finds missing before it tries a place of it. Main counts the
// places that were tried: to that one the error of another would be given.
var errForMain = errors.New("the backend can't be had")

func makeScope(on *page.Page, guard freeze.Root, main int) (payload string, err error) {
	c, err := protocol.ConfigOn(on)
	if err != nil {
		return "", fmt.Errorf("read the plan: %w", err)
	}
	root, path, err := group.Position(0) // the launcher's, too: with hidepid=2 this could not read that
	if err != nil {
		return "", err
	}
	defer root.Close()
	place := backend.Place{Root: root, Path: path, Backend: c.Group.Backend}
	if c.Group.InSession {
		place.Session = backend.FindSession(root, path)
	}
	if !on.Plan.IsByMain {
		if _, err := place.On(place.Backend); err != nil {
			return "", errForMain
		}
	}
	return backend.MakeScope(place, c, guard, main, limitsOn(on))
}

// limitsOn are the limits that raw code sets.
func limitsOn(on *page.Page) (all []cgroup.Limit) {
	at := uint32(0)
	for {
		file, value := on.Plan.Limits.Next(&at)
		if file == "" {
			break
		}
		all = append(all, cgroup.Limit{File: file, Value: value})
	}
	if on.Plan.Place.EndsWhole {
		all = append(all, group.Whole)
	}
	return all
}
