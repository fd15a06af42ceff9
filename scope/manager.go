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
	busWithin   = time.Second      // for a manager to answer at all, where there is a next backend
	soleWithin  = 5 * time.Second  // the same where there is none, and a busy machine's manager is waited for
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

// managerPlace finds out by one stat(2) whether there is such a manager.
func (at location) managerPlace(kind systemd.Kind) (place, error) {
	if err := systemd.Present(kind, os.Getuid()); err != nil {
		return nil, err
	}
	if there, _, err := proc.ReadCgroup(1); err == nil && strings.HasPrefix(there, "/..") {
		return nil, fmt.Errorf("the manager is outside of our cgroup namespace: %w", errors.ErrUnsupported)
	}
	m := manager{kind: kind, root: at.root, slice: at.slice, within: busWithin}
	if at.sole {
		m.within = soleWithin
	}
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
func (m manager) group(facts *config, pids ...int) (launched, error) {
	conn, err := systemd.Dial(m.kind, m.within)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	bound := m.client
	for try := 1; ; try++ {
		g, err := m.try(conn, facts, pids, bound)
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

func (m manager) try(conn *systemd.Manager, facts *config, pids []int, bound string) (*controlGroup, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	g := &controlGroup{id: id, dir: directoryName(facts.Name, id) + scopeSuffix, managed: true}
	err = conn.Start(systemd.Scope{
		Name: g.dir, Slice: m.slice, Description: "MCP server " + facts.Name, PIDs: pids,
		TimeoutStop: stopTimeout(facts.Policy.TermGrace), KillSignal: int(stopSignal), Client: bound,
	}, scopeWithin)
	if err != nil {
		return nil, err
	}
	where, _, err := proc.ReadCgroup(pids[0])
	if errors.Is(err, proc.ErrGone) {
		return nil, errUnheard // which says nothing about the manager
	}
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

// CheckSlice accepts the name of a slice (systemd.slice(5)).
func CheckSlice(s string) error {
	bare, ok := strings.CutSuffix(s, sliceSuffix)
	if !ok || bare == "" || len(s) > 255 || strings.ContainsFunc(bare, func(r rune) bool { return !strings.ContainsRune(unitLetters, r) }) ||
		bare != "-" && (strings.HasPrefix(bare, "-") || strings.HasSuffix(bare, "-") || strings.Contains(bare, "--")) {
		return fmt.Errorf("%q is no name of a slice (like mcp.slice)", s)
	}
	return nil
}

const unitLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\"

// shelter is a scope without a server in it, which the client's unit is stopped before.
func (m manager) shelter() error {
	conn, err := systemd.Dial(m.kind, m.within)
	if err != nil {
		return err
	}
	defer conn.Close()
	id, err := newID()
	if err != nil {
		return err
	}
	return conn.Start(systemd.Scope{
		Name: "mcpscope-gateway-" + id + scopeSuffix, Slice: m.slice, Description: "mcpscope gateway", PIDs: []int{os.Getpid()},
		TimeoutStop: stopTimeout(0), KillSignal: int(unix.SIGWINCH), Client: m.client, Outlives: true,
	}, scopeWithin)
}
