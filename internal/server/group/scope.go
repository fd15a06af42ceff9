// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// LeftToManager reports whether systemd has the scope: then the guard has a leaf in it. systemd removes the
// directory when it is empty. If another process removes it first, systemd misses the event and keeps the
// scope.
func (g *ControlGroup) LeftToManager() bool {
	if !g.Managed {
		return false
	}
	leaf, err := g.Top.Child(protocol.GuardsName)
	if err == nil {
		_ = leaf.Close() // a directory
	}
	return err == nil
}

// EndsAtOnce reports whether a new server ends before a scope is worth a request.
func (g *ControlGroup) EndsAtOnce() bool {
	_, empty, err := g.Payload.Await(time.Now().Add(protocol.EndsWithin), IsEmpty)
	return err == nil && empty
}

// Refused adds a note: the manager does not have the scope.
func (g *ControlGroup) Refused(why error) {
	before, _, _ := g.Payload.Attr(AttrNotes) // none, if it can't be read
	text := "no scope, but a directory that systemd does not know of: " + why.Error()
	g.Note(strings.Split(strings.TrimSpace(before+"\n"+text), "\n"))
}

// Taken is for a scope that its manager has: from now on its directory may hand controllers down.
func (g *ControlGroup) Taken(from protocol.Backend) {
	_ = cgroup.EnableController(g.Payload, MemoryFile, g.OwnedAbove(from)) // a limit reports the error
}

// awaitAdoption waits for the manager's answer, for a bounded time.
func (g *ControlGroup) awaitAdoption() {
	if g.adopted == nil {
		return
	}
	select {
	case <-g.adopted:
	case <-time.After(protocol.ForgottenAfter):
	}
}

// AwaitManager reports whether systemd removes the scope in time. It polls: a user has 128 inotify
// instances, which can be in use.
func (g *ControlGroup) AwaitManager() (removed bool) {
	for pause := time.Millisecond; pause < protocol.ForgottenAfter; pause *= 2 {
		top, err := g.Parent.Child(g.Dir)
		if err != nil {
			return true
		}
		_ = top.Close() // a directory
		time.Sleep(pause)
	}
	return false
}
