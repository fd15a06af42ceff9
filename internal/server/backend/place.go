// SPDX-License-Identifier: Apache-2.0

// Package backend is where groups come from: a scope of a service manager, a directory of our own, or, where
// no cgroup can be had, the process tree below the launcher.
package backend

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Place is where a backend gets a group: from a manager, from us, from both, or, for a tree, from neither.
type Place struct {
	Root   *cgroup.Group // of the cgroup2 mount, or nil
	Path   string        // the client's, from there
	Limits cgroup.Limits
	// LimitsMayFail: the server runs without those that it can't have.
	LimitsMayFail bool
	Early         bool // the server may run before a manager has been asked for its scope
	// Session is the session of the client; nil for none. Groups of its backend are made in it.
	Session *Session
	// On sets the others.
	Backend names.Backend
	Above   *cgroup.Group // the directory of all groups that we make, or nil
}

// Wanted describes the server of a client that a group is made for.
type Wanted struct {
	Config *protocol.Config
	Guard  freeze.Root // the process that a manager moves to the scope
	// Names is called with the directories, in the order of their removal, before the first one is made.
	Names func(dirs ...string) error
}

// ErrNoBackend comes with the reason of each backend that was tried.
var ErrNoBackend = errors.New("no backend works here")

// On lists where a backend can get a group, the fastest first. It checks, as cheaply as it can, whether that
// backend can be had.
func (p Place) On(b names.Backend) (all []Place, err error) {
	p.Backend = b
	if p.Session != nil && p.Session.Backend != b {
		p.Session = nil // the backend was asked for by name
	}
	switch b {
	case names.SystemdSystem, names.SystemdUser:
		err = checkManager(p.kind(), p.Path)
		if err == nil && p.Early && p.Session == nil { // no directory could be made in a slice that is new
			early := p
			early.Above = p.ownSlice()
			if early.Above != nil {
				all = append(all, early)
			}
		}
	case names.Tree:
		err = p.checkTree()
	case names.Delegated:
		p.Above, err = p.ofSession(p.delegated)
	default:
		if err := checkJob(p.Path); err != nil {
			return nil, err
		}
		p.Above, err = p.ofSession(func() (*cgroup.Group, error) { return userDirectory(p.Root) })
	}
	if err != nil {
		return nil, err
	}
	return append(all, p), nil
}

// ofSession opens the directory of the session or, outside of one, another directory.
func (p Place) ofSession(other func() (*cgroup.Group, error)) (*cgroup.Group, error) {
	if p.Session == nil {
		return other()
	}
	return p.Root.Child(strings.TrimPrefix(p.Session.Path, "/"))
}

// Group makes, locks and arms a group for a server that its client has started, and so has memory already.
func (p Place) Group(w Wanted) (*group.ControlGroup, error) {
	switch {
	case p.Above != nil:
		return p.makeGroup(w)
	case p.IsScope():
		return makeScope(p, w)
	}
	return group.NewTaggedTree(w.Config.Group.ID), nil
}

// PlanIn says which group raw code is to make in a place for a server, and names its directories in the order
// of their removal. A scope and a tree have none.
func PlanIn(p Place, c *protocol.Config) (at protocol.Placed, dirs []string) {
	id := c.Group.ID
	if p.IsTree() {
		return protocol.Placed{ID: id, Backend: names.Tree}, nil
	}
	at = group.New(id, c, p.Backend, p.kind() != "").Placed
	at.InSession = p.Session != nil
	at.Scope = p.IsScope()
	return at, directoriesOf(at)
}

// directoriesOf are the directories that we make for a group: of a scope that its manager makes there are
// none to remove.
func directoriesOf(at protocol.Placed) []string {
	switch {
	case at.Scope:
		return nil
	case at.Managed:
		return []string{at.Dir + "/" + names.PayloadName, at.Dir + "/" + names.GuardsName, at.Dir}
	}
	return []string{at.Dir}
}

// makeGroup makes a directory, which a manager takes over while the server runs already, if there is one. To
// wait for the manager would take 6 to 16 ms, in which the kernel moves a process to the scope.
func (p Place) makeGroup(w Wanted) (*group.ControlGroup, error) {
	g := group.New(w.Config.Group.ID, w.Config, p.Backend, p.kind() != "")
	g.InSession = p.Session != nil
	err := w.Names(directoriesOf(g.Placed)...)
	if err == nil {
		err = g.Make(p.Above, w.Config)
	}
	return g, err
}

// AboveServer opens the directory that will have the server's group in it, for the limits above the server.
// It may return nil. A tree is in the client's own group. Where a manager makes the scope elsewhere, such as
// for a login session, it is the root of the mount, which in a container has the limit of that.
func (p Place) AboveServer() *cgroup.Group {
	if p.Root == nil {
		return nil
	}
	dir := strings.TrimPrefix(p.Path, "/")
	switch {
	case p.Above != nil:
		copied, _ := p.Above.Child(".") // nil, if it was removed: then no group can be made
		return copied
	case p.kind() != "":
		slice := p.ownSlice()
		if slice != nil {
			return slice
		}
		dir = "."
	}
	found, _ := p.Root.Child(cmp.Or(dir, ".")) // nil, if it can't be opened: its limits are not known
	return found
}

// CanTake returns an error if there can be no group for a process that runs already.
func (p Place) CanTake() error {
	if p.IsTree() {
		return group.CanTag()
	}
	var mount unix.Statfs_t
	if err := unix.Fstatfs(p.Root.FD(), &mount); err == nil && mount.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%s: %w", p.Root.Path(), unix.EROFS) // a manager makes the group, but no leaf in it
	}
	if p.kind() != "" {
		if err := systemd.Reach(p.kind()); err != nil {
			return err
		}
	}
	if p.Above == nil {
		return nil
	}
	leaf, err := group.Leaf(p.Above)
	_ = leaf.Close() // a directory, or nil
	return err
}

// Controllers lists those with which a server in this place can be limited. A manager hands down all that it
// has itself.
func (p Place) Controllers() []string {
	switch {
	case p.IsTree():
		return nil
	case p.kind() != "":
		manager := strings.TrimPrefix(managerPath(p.kind(), p.Path), "/")
		dir, err := p.Root.Child(cmp.Or(manager, "."))
		if err != nil {
			return nil
		}
		defer dir.Close()
		list, _ := dir.Read("cgroup.controllers") // none, if it can't be read
		return strings.Fields(string(list))
	case p.Session != nil:
		return cgroup.Controllers(p.Above, 1+group.OwnedAboveDirectory(p.Above, p.Backend))
	}
	return cgroup.Controllers(p.Above, group.OwnedFrom(p.Above, p.Backend))
}

// IsTree reports whether the group has no directory.
func (p Place) IsTree() bool { return p.Above == nil && p.kind() == "" }

// IsScope reports whether a manager makes the group before the server runs.
func (p Place) IsScope() bool { return p.Above == nil && p.kind() != "" }

// MoveOut moves processes to where nothing reaches them that ends their client: a scope, or the leaf of
// guards. Where there is no cgroup there is no unit either whose end would reach them.
func (p Place) MoveOut(pids []int) error {
	switch {
	case p.kind() != "":
		return p.moveToScope(pids)
	case p.IsTree():
		return group.CanTag()
	}
	leaf, err := group.Leaf(p.Above)
	if err != nil {
		return err
	}
	defer leaf.Close()
	for _, pid := range pids {
		err = errors.Join(err, leaf.Take(pid))
	}
	return err
}

// userDirectory is the user's directory of the cgroup backend, made where it is missing. It enables no
// controller: a limit does.
func userDirectory(root *cgroup.Group) (*cgroup.Group, error) {
	slice, err := root.MkdirOpen(names.Slice, 0o755)
	if err != nil {
		return nil, err
	}
	defer slice.Close()
	return slice.MkdirOpen(strconv.Itoa(os.Getuid()), 0o700)
}

// delegated is our own cgroup, if a manager has delegated it or it belongs to our user.
// The unit's own stop covers what is made below.
func (p Place) delegated() (*cgroup.Group, error) {
	p.Path = aroundSession(p.Path)
	if p.Path == "/" {
		return nil, proc.Unsupported("mcpscope runs in the root cgroup, not in a unit with Delegate=yes")
	}
	here, err := p.Root.Child(strings.TrimPrefix(p.Path, "/"))
	if err != nil {
		return nil, err
	}
	above, err := here.Parent()
	if err == nil && p.handsDown(above) {
		_ = here.Close() // a directory
		return above, nil
	}
	_ = above.Close() // a directory, or nil: then groups are made in our own
	if err := ownedBy(here, os.Getuid()); err != nil {
		_ = here.Close() // a directory
		return nil, err
	}
	return here, nil
}

// handsDown reports whether the directory above was delegated to us too, and groups in it can have the
// limits. In our own, which has processes, no group can: so the client of a unit that wants limits goes to a
// group below the unit's (DelegateSubgroup=, systemd 254).
func (p Place) handsDown(above *cgroup.Group) bool {
	if path.Dir(p.Path) == "/" || ownedBy(above, os.Getuid()) != nil {
		return false
	}
	isUnit := strings.Contains(path.Base(p.Path), ".") // and no group in one
	if group.IsDelegated(above) && !isUnit {           // it hands down the rest: see group.OwnedAbove
		return cgroup.HandsDown(above, nil)
	}
	// a user owns all units of its manager, but the stop of a unit stops only the servers in it
	return len(p.Limits.Files) > 0 && cgroup.HandsDown(above, p.Limits.Files)
}

// ownedBy: to root every directory is writable, unless it is root of a user namespace. So for root the mark
// counts, too, that systemd puts on delegated directories.
func ownedBy(g *cgroup.Group, uid int) error {
	var st unix.Stat_t
	_ = unix.Fstat(g.FD(), &st) // it can't fail: the directory is open
	ofRoot := uid == 0 && group.IsDelegated(g) && unix.Faccessat(g.FD(), ".", unix.W_OK, 0) == nil
	if ofRoot || uid != 0 && int(st.Uid) == uid {
		return nil
	}
	return fmt.Errorf("%s is not delegated to us: %w", g.Path(), unix.EACCES)
}

// checkTree makes sure that members of a tree can be found. It needs nothing of the host but pidfds and
// /proc: the members are the descendants of the launcher, a subreaper, and the processes that carry its tag.
func (p Place) checkTree() error {
	if len(p.Limits.Files) > 0 && !p.LimitsMayFail {
		return group.ErrNoGroup
	}
	if _, err := proc.Orphans(os.Getpid()); err != nil { // of one thread, which is as good
		return fmt.Errorf("list our children: %w", err)
	}
	return nil
}

// OfGroup derives the backend of a group from the path of its directory's parent, from the root of the
// cgroup2 mount.
func OfGroup(above string, managed bool) names.Backend {
	switch {
	case managed && strings.Contains(above, "/user@"):
		return names.SystemdUser
	case managed:
		return names.SystemdSystem
	case strings.HasPrefix(above+"/", "/"+names.Slice+"/"):
		return names.Cgroup
	}
	return names.Delegated
}
