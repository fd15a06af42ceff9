//go:build linux

package scope

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/name"
)

// DefaultSlice is where the groups are, unless a user wants another.
const DefaultSlice = "mcp.slice"

// Names in the cgroup tree.
const (
	sliceName      = DefaultSlice
	sliceSuffix    = ".slice"
	groupPrefix    = "mcp-"
	scopeSuffix    = ".scope"
	supervisorName = "supervisor"
	payloadName    = "payload"
	leavingName    = "leaving" // a leaf for processes that remove a group (spawn.Remover), and for the watchers of gateways
)

// Attributes of a payload's directory. armed is set last: a payload with it and
// without a lock is an orphan's. Its value is the version of all the others.
const (
	attrArmed    = "user.mcpscope.armed"
	attrName     = "user.mcpscope.name"
	attrLauncher = "user.mcpscope.launcher"
	attrSweeper  = "user.mcpscope.sweeper" // who ends it as an orphan
	attrClient   = "user.mcpscope.client"
	attrUnit     = "user.mcpscope.unit" // the client's
	attrStart    = "user.mcpscope.start"
	attrPolicy   = "user.mcpscope.policy"
	attrStop     = "user.mcpscope.stop"   // the term grace of a stop that was asked for
	attrEnding   = "user.mcpscope.ending" // why it is being ended
	attrNotes    = "user.mcpscope.notes"  // a line each
	attrLimits   = "user.mcpscope.limits" // the files that were set
	attrMemory   = "user.mcpscope.memory" // which group's memory is the server's since its start: payloadName, or "." for the one around it
)

// attrSwept marks the directory of the groups with the time of the last sweep.
const attrSwept = "user.mcpscope.swept"

// controlGroup is the cgroup of one server, and the two leaves below it. Lock and attributes
// are on payload, which is ours to make wherever the directory above comes from.
type controlGroup struct {
	id         string
	dir        string
	managed    bool // a scope: systemd removes it when it is empty
	owned      bool // the calling process is its supervisor
	parent     *cgroup.Group
	top        *cgroup.Group
	supervisor *cgroup.Group
	payload    *cgroup.Group
}

// groupMode is that of a group and its leaves. A directory of mode 0755 could be locked by any user.
const groupMode = 0o700

// makeTries is how often a new directory is tried when the last one was taken or
// met a sweeper's probe.
const makeTries = 16

// makeGroup makes, locks and arms a group below parent.
func makeGroup(parent *cgroup.Group, facts *config) (*controlGroup, error) {
	var err error
	for range makeTries {
		var g *controlGroup
		if g, err = tryMakeGroup(parent, facts); err == nil {
			return g, nil
		}
		again := errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
		if !again {
			break
		}
	}
	return nil, err
}

func tryMakeGroup(parent *cgroup.Group, facts *config) (*controlGroup, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	g := &controlGroup{id: id, dir: directoryName(facts.Name, id), parent: parent}
	if g.top, err = parent.Mkdir(g.dir, groupMode); err != nil {
		return nil, err
	}
	if err = g.arm(facts); err != nil {
		_ = g.removeLeaves() // which takes no descriptor; a sweeper removes what can't be removed now
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *controlGroup) arm(facts *config) error {
	var err error
	if g.supervisor, err = g.top.Mkdir(supervisorName, groupMode); err != nil {
		return err
	}
	if g.payload, err = g.top.Mkdir(payloadName, groupMode); err != nil {
		return err
	}
	if frozen(g.payload) { // whoever is started in it would not run, nor would we come back
		return fmt.Errorf("%s is frozen by a group above it: %w", g.payload, unix.EBUSY)
	}
	if err = g.payload.TryLock(unix.LOCK_EX); err != nil {
		return err
	}
	if err = g.describe(facts); err != nil {
		return err
	}
	// lock and attributes succeed on a directory that a sweep has removed meanwhile, for it was old; this
	// does not
	kind, err := g.payload.Read("cgroup.type")
	if err == nil && bytes.HasPrefix(kind, []byte("domain invalid")) {
		err = fmt.Errorf("no process can be in %s, for a group above it is threaded: %w", g.payload, unix.EOPNOTSUPP)
	}
	return err
}

// describe writes the attributes, the one that counts last.
func (g *controlGroup) describe(facts *config) error {
	self, err := identify(unix.Getpid())
	if err != nil {
		return err
	}
	for _, a := range [][2]string{
		{attrName, facts.Name}, {attrLauncher, self.String()}, {attrClient, facts.Client.String()},
		{attrUnit, facts.Client.Unit}, {attrStart, time.Unix(0, facts.Started).UTC().Format(time.RFC3339Nano)}, {attrPolicy, facts.Policy.String()},
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
func adoptGroup(payload int, at *placed) (*controlGroup, error) {
	g := &controlGroup{id: at.ID, dir: at.Dir, managed: at.Managed, owned: true}
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
func (g *controlGroup) remove() error {
	if g.managed {
		return nil // systemd does, as soon as nobody is in it
	}
	if g.removeLeaves() == nil {
		return nil // as a rule nothing has been made in it
	}
	if err := g.top.Remove(payloadName); err != nil {
		return err
	}
	err := g.parent.Remove(g.dir)
	if errors.Is(err, unix.EBUSY) { // a process can be dead and its cgroup not know it yet
		_, _, _ = g.top.Await(time.Now().Add(busyWithin), -1, isEmpty)
		err = g.parent.Remove(g.dir)
	}
	return err
}

// removeLeaves removes a group in which nothing has been made.
func (g *controlGroup) removeLeaves() error {
	for _, name := range []string{payloadName, supervisorName} {
		if err := g.top.RemoveLeaf(name); err != nil {
			return err
		}
	}
	return g.parent.RemoveLeaf(g.dir)
}

// busyWithin is far longer than a process takes from its death to the end of its exit.
const busyWithin = 20 * time.Millisecond

func (g *controlGroup) close() {
	for _, c := range []*cgroup.Group{g.payload, g.supervisor, g.top} {
		if c != nil {
			_ = c.Close() // a directory
		}
	}
}

// number reads a file with one number; nil where there is none.
func (g *controlGroup) number(file string) *uint64 {
	n, ok := g.payload.Number(file)
	if !ok {
		return nil
	}
	return &n
}

// frozen tells whether the group is frozen, by itself or from above.
func frozen(g *cgroup.Group) bool {
	st, err := g.State()
	return err == nil && st.Frozen
}

func directoryName(server, id string) string { return groupPrefix + name.Dir(server) + "-" + id }

const (
	idLetters = "abcdefghjkmnpqrstuvwxyz023456789" // easy to type
	idLength  = 8
)

// newID returns 40 random bits.
func newID() (string, error) {
	var b [idLength]byte
	if _, err := unix.Getrandom(b[:], 0); err != nil {
		return "", fmt.Errorf("get random bytes: %w", err)
	}
	for i := range b {
		b[i] = idLetters[int(b[i])%len(idLetters)]
	}
	return string(b[:]), nil
}
