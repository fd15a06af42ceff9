// SPDX-License-Identifier: Apache-2.0

//go:build linux

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
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

const (
	busWithin   = time.Second      // for a manager to answer at all, where there is a next backend
	SoleWithin  = 5 * time.Second  // the same without a next backend: a busy machine's manager is slow
	scopeWithin = 10 * time.Second // for a scope
	scopeTries  = 3
)

// manager is a place whose groups systemd makes: transient scopes.
type manager struct {
	kind   systemd.Kind
	root   *cgroup.Group
	slice  string
	client string        // the client's unit, if it is of the same manager
	within time.Duration // for the manager to answer at all
}

// FindManager says why no manager can start anything for this user.
func FindManager() error { return systemd.Present(systemd.Own(), os.Getuid()) }

// managerPlace finds out by one stat(2) whether there is such a manager.
func (at Location) managerPlace(kind systemd.Kind) (Place, error) {
	if err := systemd.Present(kind, os.Getuid()); err != nil {
		return nil, err
	}
	if there, err := proc.ReadCgroup(1); err == nil && strings.HasPrefix(there, "/..") {
		return nil, fmt.Errorf("the manager is outside of our cgroup namespace: %w", errors.ErrUnsupported)
	}
	m := manager{kind: kind, root: at.Root, slice: at.Slice, within: busWithin}
	if at.Sole {
		m.within = SoleWithin
	}
	if unit, of, ok := systemd.UnitOf(at.Path, os.Getuid()); ok && of == kind {
		m.client = unit
	}
	return m, nil
}

func (m manager) Backend() protocol.Backend {
	if m.kind == systemd.User {
		return protocol.SystemdUser
	}
	return protocol.SystemdSystem
}

// Above returns nil: the scope's leaf is there when the scope is.
func (m manager) Above() *cgroup.Group { return nil }

// Group starts the scope, bound to the client's unit.
func (m manager) Group(w Wanted) (*group.ControlGroup, error) {
	conn, err := systemd.Dial(m.kind, m.within)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for try := 1; ; try++ {
		g, err := m.try(conn, w)
		switch {
		case err == nil:
			return g, nil
		case try == scopeTries || !errors.Is(err, errNotInside):
			return nil, err
		}
	}
}

// errNotInside: systemd has been seen to stop a new scope as empty at once
// (systemd #36781).
var errNotInside = errors.New("its first process is not in the scope")

func (m manager) try(conn *systemd.Manager, w Wanted) (*group.ControlGroup, error) {
	g := group.New(nil, w.Config.Group.ID, w.Config, m.Backend(), nil)
	err := conn.Start(m.scope(g.Dir, w.Config, []int{w.Guard.PID}), scopeWithin)
	if err != nil {
		return nil, err
	}
	where, err := proc.ReadCgroup(w.Guard.PID)
	if err != nil { // hidepid=2 hides the guard, which refuses to be traced (proc(5))
		if where, err = conn.ControlGroup(g.Dir, scopeWithin); err != nil {
			return nil, err
		}
	}
	if path.Base(where) != g.Dir {
		return nil, fmt.Errorf("%w %s, but in %s", errNotInside, g.Dir, where)
	}
	if g.Top, err = m.root.Child(strings.TrimPrefix(where, "/")); err != nil {
		return nil, err
	}
	if g.Parent, err = g.Top.Parent(); err != nil {
		g.Close()
		return nil, err
	}
	if err = g.Arm(w.Config); err == nil {
		g.SetGuard(w.Guard)
		if err = g.MoveGuard(); err == nil {
			w.count(g, m.Backend())
		}
	}
	if err != nil {
		if g.Payload != nil {
			_ = g.Disarm() // the guard is in it, and may get another
		}
		_ = g.Parent.Close() // a directory
		g.Close()
		return nil, err
	}
	return g, nil
}

func (m manager) scope(name string, facts *protocol.Config, pids []int) systemd.Scope {
	return systemd.Scope{
		Name: name, Slice: m.slice, Description: "MCP server " + facts.Name, PIDs: pids,
		TimeoutStop: stopTimeout(facts), KillSignal: int(protocol.StopSignal), Client: m.client,
	}
}

// stopTimeout lets the launcher finish the stop before systemd kills.
func stopTimeout(facts *protocol.Config) time.Duration {
	grace := facts.Policy.TermGrace
	switch {
	case grace < 0:
		return math.MaxInt64
	case facts.Engine != "":
		return grace + protocol.KillWithin + protocol.EngineWithin
	default:
		return grace + protocol.KillWithin
	}
}

// CheckSlice accepts the name of a slice (systemd.slice(5)).
func CheckSlice(s string) error {
	bare, ok := strings.CutSuffix(s, protocol.SliceSuffix)
	foreign := strings.Trim(bare, systemd.UnitLetters) != ""
	dashes := strings.HasPrefix(bare, "-") || strings.HasSuffix(bare, "-") || strings.Contains(bare, "--")
	if !ok || bare == "" || len(s) > 255 || foreign || bare != "-" && dashes {
		return fmt.Errorf("%q is no name of a slice (like mcp.slice)", s)
	}
	return nil
}

// MoveOut moves processes to a scope without a server in it, which the client's unit is stopped before.
func (m manager) MoveOut(pids []int) error {
	conn, err := systemd.Dial(m.kind, m.within)
	if err != nil {
		return err
	}
	defer conn.Close()
	id, err := protocol.NewID()
	if err != nil {
		return err
	}
	return conn.Start(systemd.Scope{
		Name: "mcpscope-gateway-" + id + protocol.ScopeSuffix, Slice: m.slice,
		Description: "mcpscope gateway", PIDs: pids,
		TimeoutStop: protocol.KillWithin, KillSignal: int(unix.SIGWINCH), Client: m.client, Outlives: true,
	}, scopeWithin)
}
