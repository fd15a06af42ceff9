// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

// Attributes of a payload's directory. armed is set last: a payload with it and
// without a lock is an orphan's. Its value is the version of all the others.
const (
	AttrArmed    = "user.mcpscope.armed"
	AttrName     = "user.mcpscope.name"
	AttrLauncher = "user.mcpscope.launcher"
	AttrClient   = "user.mcpscope.client"
	AttrUnit     = "user.mcpscope.unit" // the client's
	AttrStart    = "user.mcpscope.start"
	AttrPolicy   = "user.mcpscope.policy"
	AttrEnding   = "user.mcpscope.ending" // why it is being ended
	AttrNotes    = "user.mcpscope.notes"  // a line each
	AttrEngine   = "user.mcpscope.engine" // docker, podman or nerdctl, where it runs in a container
	attrScope    = "user.mcpscope.scope"  // of a scope's directory that we made: what its manager knows of it, see scope.go
	attrLimits   = "user.mcpscope.limits" // the files that were set
	attrMemory   = "user.mcpscope.memory" // which group's memory is the server's since its start: payloadName, "." or "late" for the one around it
)

// ControlGroup is the cgroup of one server, and the two leaves below it. Lock and attributes
// are on payload, which is ours to make wherever the directory above comes from.
type ControlGroup struct {
	ID      string
	Dir     string
	Managed bool // a scope's: see LeftToManager
	// accompanied: a container engine's program may be beside the supervisor, which asks it something.
	accompanied bool
	standby     *spawn.Standby      // nil for one of a manager's
	adopt       func(*ControlGroup) // asks a manager to take the directory over; nil for none
	adopted     chan struct{}       // closed when it has answered
	asked       atomic.Bool
	Parent      *cgroup.Group
	Top         *cgroup.Group
	Supervisor  *cgroup.Group
	Payload     *cgroup.Group
}

// GroupMode is that of a group and its leaves. A directory of mode 0755 could be locked by any user.
const GroupMode = 0o700

// makeTries is how often a new directory is tried when the last one was taken or
// met a sweeper's probe.
const makeTries = 16

// MakeGroup makes, locks and arms a group below parent. If watched, somebody stands by from before it is made. With adopt it
// is a scope's, whose manager is asked by that as soon as the server runs.
func MakeGroup(parent *cgroup.Group, facts *protocol.Config, watched bool, adopt func(*ControlGroup)) (*ControlGroup, error) {
	var err error
	for range makeTries {
		var g *ControlGroup
		if g, err = tryMakeGroup(parent, facts, watched, adopt); err == nil {
			return g, nil
		}
		again := errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
		if !again {
			break
		}
	}
	return nil, err
}

func tryMakeGroup(parent *cgroup.Group, facts *protocol.Config, watched bool, adopt func(*ControlGroup)) (*ControlGroup, error) {
	id, err := protocol.NewID()
	if err != nil {
		return nil, err
	}
	g := &ControlGroup{ID: id, Dir: protocol.DirectoryName(facts.Name, id), Parent: parent, adopt: adopt}
	if adopt != nil {
		g.Dir, g.Managed = g.Dir+protocol.ScopeSuffix, true
	}
	if watched {
		g.standby, _ = g.standBy() // without it the server is born when it has a supervisor
	}
	if g.Top, err = parent.Mkdir(g.Dir, GroupMode); err == nil {
		if err = g.Arm(facts); err == nil {
			return g, nil
		}
		_ = g.RemoveLeaves() // which takes no descriptor; a sweeper removes what can't be removed now
		g.Close()
	}
	if g.standby != nil {
		g.standby.End(protocol.StandbyWithin)
	}
	return nil, err
}

func (g *ControlGroup) Arm(facts *protocol.Config) error {
	var err error
	g.accompanied = facts.Engine() != ""
	if g.Supervisor, err = g.Top.Mkdir(protocol.SupervisorName, GroupMode); err != nil {
		return err
	}
	if g.Payload, err = g.Top.Mkdir(protocol.PayloadName, GroupMode); err != nil {
		return err
	}
	if Frozen(g.Payload) { // whoever is started in it would not run, nor would we come back
		return fmt.Errorf("%s is frozen by a group above it: %w", g.Payload, unix.EBUSY)
	}
	if err = g.Payload.TryLock(unix.LOCK_EX); err != nil {
		return err
	}
	if err = g.describe(facts); err != nil {
		return err
	}
	// lock and attributes succeed on a directory that a sweep has removed meanwhile, for it was old; this
	// does not
	kind, err := g.Payload.Read("cgroup.type")
	if err == nil && bytes.HasPrefix(kind, []byte("domain invalid")) {
		err = fmt.Errorf("no process can be in %s, for a group above it is threaded: %w", g.Payload, unix.EOPNOTSUPP)
	}
	return err
}

// describe writes the attributes, the one that counts last.
func (g *ControlGroup) describe(facts *protocol.Config) error {
	self, err := Identify(unix.Getpid())
	if err != nil {
		return err
	}
	attributes := [][2]string{
		{AttrName, facts.Name}, {AttrLauncher, self.String()}, {AttrClient, facts.Client.String()},
		{AttrUnit, facts.Client.Unit}, {AttrStart, time.Unix(0, facts.Started).UTC().Format(time.RFC3339Nano)}, {AttrPolicy, facts.Policy.String()},
		{AttrArmed, fmt.Sprint(protocol.ProtocolVersion)},
	}
	if g.adopt != nil {
		attributes = slices.Insert(attributes, 0, [2]string{attrScope, unasked})
	}
	if engine := facts.Engine(); engine != "" {
		attributes = slices.Insert(attributes, 0, [2]string{AttrEngine, engine})
	}
	for _, a := range attributes {
		if err := g.Payload.SetAttr(a[0], a[1]); err != nil {
			return err
		}
	}
	return nil
}

// Disarm makes the group nobody's, so that no sweep ends who is in it.
func (g *ControlGroup) Disarm() error { return g.Payload.RemoveAttr(AttrArmed) }

// AdoptGroup is the supervisor's view of the group whose payload it inherited, lock
// included.
func AdoptGroup(payload int, at *protocol.Placed) (*ControlGroup, error) {
	g := &ControlGroup{ID: at.ID, Dir: at.Dir, Managed: at.Managed}
	var err error
	if g.Payload, err = cgroup.FromFD(payload, path.Join(g.Dir, protocol.PayloadName)); err != nil {
		return nil, err
	}
	if g.Top, err = g.Payload.Parent(); err != nil {
		return nil, err
	}
	if g.Parent, err = g.Top.Parent(); err != nil {
		return nil, err
	}
	if g.Supervisor, err = g.Top.Child(protocol.SupervisorName); err == nil && at.Enter {
		err = g.Supervisor.Enter()
	}
	return g, err
}

// Remove removes the group's directories; they must be empty. payload goes first: if it
// has a member the rest stays, so that a sweeper knows what it has before it.
func (g *ControlGroup) Remove() error {
	g.awaitAdoption()
	if g.LeftToManager() {
		if g.adopt != nil && g.OnlyAsked() {
			g.RemoveLate()
		}
		return nil
	}
	if g.RemoveLeaves() == nil {
		return nil // as a rule nothing has been made in it
	}
	if err := g.Top.Remove(protocol.PayloadName); err != nil {
		return err
	}
	err := g.Parent.Remove(g.Dir)
	if errors.Is(err, unix.EBUSY) { // a process can be dead and its cgroup not know it yet
		_, _, _ = g.Top.Await(time.Now().Add(busyWithin), -1, IsEmpty)
		err = g.Parent.Remove(g.Dir)
	}
	return err
}

// RemoveLeaves removes a group in which nothing has been made.
func (g *ControlGroup) RemoveLeaves() error {
	for _, name := range []string{protocol.PayloadName, protocol.SupervisorName} {
		if err := g.Top.RemoveLeaf(name); err != nil {
			return err
		}
	}
	return g.Parent.RemoveLeaf(g.Dir)
}

// busyWithin is far longer than a process takes from its death to the end of its exit.
const busyWithin = 20 * time.Millisecond

func (g *ControlGroup) Close() {
	for _, c := range []*cgroup.Group{g.Payload, g.Supervisor, g.Top} {
		if c != nil {
			_ = c.Close() // a directory
		}
	}
}

// Number reads a file with one number; nil where there is none.
func (g *ControlGroup) Number(file string) *uint64 {
	n, ok := g.Payload.Number(file)
	if !ok {
		return nil
	}
	return &n
}

// Frozen tells whether the group is frozen, by itself or from above.
func Frozen(g *cgroup.Group) bool {
	st, err := g.State()
	return err == nil && st.Frozen
}
