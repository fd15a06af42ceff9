//go:build linux

package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/name"
)

// Names in the cgroup tree.
const (
	sliceName      = "mcp.slice"
	groupPrefix    = "mcp-"
	scopeSuffix    = ".scope"
	supervisorName = "supervisor"
	payloadName    = "payload"
	leavingName    = "leaving" // a leaf for processes that remove a group: see spawn.Remover
)

// Attributes of a payload's directory. armed is set last: a payload with it and
// without a lock is an orphan's. Its value is the version of all the others.
const (
	attrArmed    = "user.mcpscope.armed"
	attrName     = "user.mcpscope.name"
	attrLauncher = "user.mcpscope.launcher"
	attrSweeper  = "user.mcpscope.sweeper" // who ends it as an orphan
	attrClient   = "user.mcpscope.client"
	attrStart    = "user.mcpscope.start"
	attrPolicy   = "user.mcpscope.policy"
)

// attrSwept marks the directory of the groups with the time of the last sweep.
const attrSwept = "user.mcpscope.swept"

// group is the cgroup of one server, and the two leaves below it. Lock and attributes
// are on payload, which is ours to make wherever the directory above comes from.
type group struct {
	id         string
	dir        string
	managed    bool // a scope: systemd removes it when it is empty
	parent     *cgroup.Group
	top        *cgroup.Group
	supervisor *cgroup.Group
	payload    *cgroup.Group
}

// makeTries is how often a new directory is tried when the last one was taken or
// met a sweeper's probe.
const makeTries = 16

// makeGroup makes, locks and arms a group below parent.
func makeGroup(parent *cgroup.Group, facts *config) (*group, error) {
	var err error
	for range makeTries {
		var g *group
		if g, err = tryMakeGroup(parent, facts); err == nil {
			return g, nil
		}
		again := errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.ENOENT)
		if !again {
			break
		}
	}
	return nil, err
}

func tryMakeGroup(parent *cgroup.Group, facts *config) (*group, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	g := &group{id: id, dir: directoryName(facts.Name, id), parent: parent}
	if g.top, err = parent.Mkdir(g.dir, 0o700); err != nil {
		return nil, err
	}
	if err = g.arm(facts); err != nil {
		_ = parent.Remove(g.dir) // empty; a sweeper removes what can't be removed now
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *group) arm(facts *config) error {
	var err error
	if g.supervisor, err = g.top.Mkdir(supervisorName, 0o700); err != nil {
		return err
	}
	if g.payload, err = g.top.Mkdir(payloadName, 0o700); err != nil {
		return err
	}
	if frozen(g.payload) { // whoever is started in it would not run, nor would we come back
		return fmt.Errorf("%s is frozen by a group above it: %w", g.payload, unix.EBUSY)
	}
	if err = g.payload.TryLock(unix.LOCK_EX); err != nil {
		return err
	}
	return g.describe(facts)
}

// describe writes the attributes, the one that counts last.
func (g *group) describe(facts *config) error {
	self, err := identify(unix.Getpid())
	if err != nil {
		return err
	}
	policy, err := json.Marshal(facts.Policy)
	if err != nil {
		return fmt.Errorf("encode policy: %w", err)
	}
	client, err := json.Marshal(facts.Client)
	if err != nil {
		return fmt.Errorf("encode client: %w", err)
	}
	for _, a := range [][2]string{
		{attrName, facts.Name}, {attrLauncher, self.String()}, {attrClient, string(client)},
		{attrStart, time.Unix(0, facts.Started).UTC().Format(time.RFC3339Nano)}, {attrPolicy, string(policy)},
		{attrArmed, fmt.Sprint(protocolVersion)},
	} {
		if err := g.payload.SetAttr(a[0], a[1]); err != nil {
			return err
		}
	}
	return nil
}

// adoptGroup is the supervisor's view of the group whose payload it inherited, lock
// included.
func adoptGroup(payload int, at *placed) (*group, error) {
	g := &group{id: at.ID, dir: at.Dir, managed: at.Managed}
	var err error
	if g.payload, err = cgroup.FromFD(payload, path.Join(g.dir, payloadName)); err != nil {
		return nil, err
	}
	if g.top, err = g.payload.Parent(); err != nil {
		return nil, err
	}
	if g.parent, err = g.top.Parent(); err != nil {
		return nil, err
	}
	if g.supervisor, err = g.top.Child(supervisorName); err == nil && at.Enter {
		err = g.supervisor.Enter()
	}
	return g, err
}

// remove removes the group's directories; they must be empty. payload goes first: if it
// has a member the rest stays, so that a sweeper knows what it has before it.
func (g *group) remove() error {
	if g.managed {
		return nil // systemd does, as soon as nobody is in it
	}
	if err := g.top.Remove(payloadName); err != nil {
		return err
	}
	return g.parent.Remove(g.dir)
}

func (g *group) close() {
	for _, c := range []*cgroup.Group{g.payload, g.supervisor, g.top} {
		if c != nil {
			_ = c.Close() // a directory
		}
	}
}

// frozen tells whether the group is frozen, by itself or from above.
func frozen(g *cgroup.Group) bool {
	events, err := g.Events()
	if err != nil {
		return false
	}
	defer events.Close()
	st, err := events.State()
	return err == nil && st.Frozen
}

func directoryName(server, id string) string { return groupPrefix + name.Dir(server) + "-" + id }

// newID returns 40 random bits as eight letters and digits that are easy to type.
func newID() (string, error) {
	const alphabet = "abcdefghjkmnpqrstuvwxyz023456789"
	var b [8]byte
	if _, err := unix.Getrandom(b[:], 0); err != nil {
		return "", fmt.Errorf("get random bytes: %w", err)
	}
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b[:]), nil
}
