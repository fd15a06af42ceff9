//go:build linux

package scope

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
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/systemd"
)

const (
	busWithin   = time.Second     // for a manager to answer at all
	scopeWithin = 2 * time.Second // for a scope
	scopeTries  = 3
)

// manager is a place whose groups systemd makes: transient scopes.
type manager struct {
	kind   systemd.Kind
	root   *cgroup.Group
	client string // the client's unit, if it is of the same manager
}

// managerPlace finds out by one stat(2) whether there is such a manager.
func (at location) managerPlace(kind systemd.Kind) (place, error) {
	if err := systemd.Present(kind, os.Getuid()); err != nil {
		return nil, err
	}
	m := manager{kind: kind, root: at.root}
	if unit, of, ok := systemd.UnitOf(at.path, os.Getuid()); ok && of == kind {
		m.client = unit
	}
	return m, nil
}

func (m manager) backend() Backend {
	if m.kind == systemd.User {
		return SystemdUser
	}
	return SystemdSystem
}

func (m manager) needsProcess() bool { return true }

// group starts the scope. It is bound to the client's unit, unless that is being
// stopped: then a server that is started all the same must neither cancel the stop nor
// wait for it.
func (m manager) group(facts *config, supervisor int) (*group, error) {
	conn, err := systemd.Dial(m.kind, busWithin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	bound := m.client
	for try := 1; ; try++ {
		g, err := m.try(conn, facts, supervisor, bound)
		switch {
		case err == nil:
			return g, nil
		case try == scopeTries:
			return nil, err
		case errors.Is(err, systemd.ErrTransaction):
			bound = ""
		case !errors.Is(err, errNotInside):
			return nil, err
		}
	}
}

// errNotInside: systemd has been seen to stop a new scope as empty at once
// (systemd #36781).
var errNotInside = errors.New("the supervisor is not in the scope")

func (m manager) try(conn *systemd.Manager, facts *config, supervisor int, bound string) (*group, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	g := &group{id: id, dir: directoryName(facts.Name, id) + scopeSuffix, managed: true}
	err = conn.Start(systemd.Scope{
		Name: g.dir, Slice: sliceName, Description: "MCP server " + facts.Name, PID: supervisor,
		TimeoutStop: stopTimeout(facts.Policy.TermGrace), KillSignal: int(unix.SIGWINCH), Client: bound,
	}, scopeWithin)
	if err != nil {
		return nil, err
	}
	where, _, err := proc.ReadCgroup(supervisor)
	if err != nil {
		return nil, err
	}
	if path.Base(where) != g.dir {
		return nil, fmt.Errorf("%w %s, but in %s", errNotInside, g.dir, where)
	}
	if g.top, err = m.root.Child(strings.TrimPrefix(where, "/")); err != nil {
		return nil, err
	}
	if g.parent, err = g.top.Parent(); err != nil {
		return nil, err
	}
	return g, g.arm(facts)
}

// stopTimeout lets the supervisor finish its ladder before systemd kills.
func stopTimeout(grace time.Duration) time.Duration {
	if grace < 0 {
		return math.MaxInt64
	}
	return grace + time.Second
}

// scopes opens the slice of a manager's scopes, for whoever looks for orphans.
func (at location) scopes(kind systemd.Kind, uid int) (*cgroup.Group, error) {
	dir := sliceName
	if kind == systemd.User {
		dir = fmt.Sprintf("user.slice/user-%d.slice/user@%d.service/%s", uid, uid, sliceName)
	}
	return at.root.Child(dir)
}
