// SPDX-License-Identifier: Apache-2.0

// Package group is the cgroup of one server: how it is made, locked, armed and removed, its attributes,
// limits and figures, the tag of its members, and where in the hierarchy there are groups. It does not decide
// when a group is stopped.
package group

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Attributes of a payload's directory. armed is set last: an armed payload without a lock is an orphan's.
const (
	AttrArmed  = "user.mcpscope.armed"  // encoded protocol.Facts
	AttrEnding = "user.mcpscope.ending" // why it is being ended
	AttrNotes  = "user.mcpscope.notes"  // a line each
	AttrLimits = "user.mcpscope.limits" // the files that were set
	attrMemory = "user.mcpscope.memory" // the kernel counts it since the start
)

// ControlGroup is the cgroup of one server. The payload, with lock and attributes, is the group itself, or in
// a scope a directory of our own. Where no cgroup can be had it is a process tree (IsTree), which has no
// directory at all: then the directories are nil, and nothing but the members is known.
type ControlGroup struct {
	protocol.Placed
	tree    *freeze.Tree        // of a server without a cgroup
	AdoptBy func(*ControlGroup) // asks a manager to take the directory over; nil for none
	adopted chan struct{}       // closed when it has answered
	Payload *cgroup.Group       // nil in a tree, and in a scope that was never armed
	Guards  *cgroup.Group       // the leaf of the guard in a scope; nil while that is not open
	top     *cgroup.Group       // nil while it is not open: see Top
}

// GroupMode is the mode of the directories of a group and of its leaves. A directory of mode 0755 could be
// locked by any user.
const GroupMode = 0o700

// New is a group that does not exist yet; managed: as a scope.
func New(id string, c *protocol.Config, from names.Backend, managed bool) *ControlGroup {
	at := protocol.Placed{ID: id, Dir: names.DirectoryName(c.Facts.Name, id), Backend: from}
	if managed {
		at.Dir += names.ScopeSuffix
		at.Managed = true
	}
	return &ControlGroup{Placed: at}
}

// Open opens a group of parent by its directory. A scope without a payload is open in spite of the ENOENT:
// see IsWithoutPayload.
func Open(parent *cgroup.Group, dir string) (g *ControlGroup, err error) {
	managed := strings.HasSuffix(dir, names.ScopeSuffix)
	inSession := names.IsSession(path.Base(parent.Path()))
	placed := protocol.Placed{ID: names.IDOf(dir), Dir: dir, Managed: managed, InSession: inSession}
	g = &ControlGroup{Placed: placed}
	g.top, err = parent.Child(dir)
	if err != nil || !managed {
		g.Payload = g.top
		return g, err
	}
	g.Payload, err = g.top.Child(names.PayloadName)
	return g, err
}

// IsWithoutPayload reports whether Open has opened a scope that has no payload, so that it was never armed.
func (g *ControlGroup) IsWithoutPayload() bool { return g.top != nil && g.Payload == nil }

// NewTree is the group of the processes of a tree.
func NewTree(id string, tree *freeze.Tree) *ControlGroup {
	at := protocol.Placed{ID: id, Backend: names.Tree}
	return &ControlGroup{Placed: at, tree: tree}
}

// NewTaggedTree is the group of the processes that carry the tag: of a server that its client has started, so
// that its members do not descend from the calling process.
func NewTaggedTree(id string) *ControlGroup {
	return NewTree(id, &freeze.Tree{Tag: TagOf(id), Owner: os.Getuid()})
}

// IsTree reports whether the group has no cgroup.
func (g *ControlGroup) IsTree() bool { return g.tree != nil }

// Leaf opens the directory for guards beside the groups of parent. A kill of the client's cgroup does not
// reach it, and it does not keep a group from being removed.
func Leaf(parent *cgroup.Group) (*cgroup.Group, error) {
	leaf, err := parent.MkdirOpen(names.GuardsName, GroupMode)
	if err == nil && Frozen(leaf) {
		_ = leaf.Thaw() // a server may have frozen it
	}
	return leaf, err
}

// Make makes the directory in parent, and arms the group.
func (g *ControlGroup) Make(parent *cgroup.Group, c *protocol.Config) (err error) {
	if g.top, err = parent.Mkdir(g.Dir, GroupMode); err != nil {
		return err
	}
	if err = g.Arm(c); err != nil { // a sweep removes a group that is not armed for 10 s
		_ = g.RemoveLeaves() // which takes no descriptor; a sweeper removes what can't be removed now
		g.Close()
	}
	return err
}

// Arm makes the payload of a scope, locks it and sets the attributes.
func (g *ControlGroup) Arm(c *protocol.Config) (err error) {
	if err = g.MakePayload(); err != nil {
		return err
	}
	if Frozen(g.Payload) { // a process that is started in it would not run
		return fmt.Errorf("%s is frozen by a group above it: %w", g.Payload.Path(), unix.EBUSY)
	}
	if err = g.Payload.TryLock(unix.LOCK_EX); err != nil {
		return err
	}
	if err = g.Attributes().Register(c); err != nil {
		return err
	}
	// lock and attributes also succeed on a directory that a sweep has removed; this read does not
	kind, err := g.Payload.Read("cgroup.type")
	if err == nil && bytes.HasPrefix(kind, []byte("domain invalid")) {
		err = fmt.Errorf("no process can be in %s, for a group above it is threaded: %w",
			g.Payload.Path(), unix.EOPNOTSUPP)
	}
	return err
}

// MakePayload makes the directory of the members: that of the group itself where no manager has that.
func (g *ControlGroup) MakePayload() (err error) {
	g.Payload = g.top
	if g.Managed {
		g.Payload, err = g.top.Mkdir(names.PayloadName, GroupMode)
	}
	return err
}

// Reopen is the group of a payload that a helper has inherited.
func Reopen(payload int, at protocol.Placed) (g *ControlGroup, err error) {
	g = &ControlGroup{Placed: at}
	where := g.Dir
	if g.InSession { // whose path is needed when the group was removed
		where, _ = os.Readlink(proc.DescriptorPath(os.Getpid(), payload)) // "", without /proc
	}
	g.Payload, err = cgroup.FromFD(payload, where)
	if !g.Managed {
		g.top = g.Payload
	}
	return g, err
}

// Park closes what is needed again only when the group ends: a gateway can have hundreds of them.
func (g *ControlGroup) Park() {
	_ = g.Guards.Close() // a directory, or nil
	g.Guards = nil
	if g.Managed {
		_ = g.top.Close() // a directory, or nil
		g.top = nil
	}
}

// Top is the directory of the whole group: that of the scope, or else the payload. It opens what Park or a
// helper's start has left closed. It is nil for a tree.
func (g *ControlGroup) Top() *cgroup.Group {
	if g.top != nil || g.Payload == nil {
		return g.top
	}
	top, err := g.Payload.Parent()
	if err != nil {
		return g.Payload // it was removed: there is nothing above it any more
	}
	g.top = top
	return top
}

// Remove removes the empty directories, after the answer of a manager that adopts the group.
func (g *ControlGroup) Remove() error {
	if g.adopted != nil {
		select {
		case <-g.adopted:
		case <-time.After(policy.ForgottenAfter):
		}
	}
	if g.IsTree() || g.Managed && g.Manager().HasScope() {
		return nil
	}
	return g.RemoveWhole()
}

// RemoveWhole removes the group with all empty directories in it. A process may be dead, and have not ended
// its exit yet: then it waits, for two seconds at most.
func (g *ControlGroup) RemoveWhole() error {
	err := g.Top().Remove("../" + g.Dir)
	pause := time.Millisecond
	for errors.Is(err, unix.EBUSY) && !Populated(g.Top()) && pause < time.Second {
		// time.Sleep may need two descriptors, of which a client can have left us none
		_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(pause)}, nil)
		pause *= 2
		err = g.Top().Remove("../" + g.Dir)
	}
	return err
}

// RemoveLeaves removes a group without further directories.
func (g *ControlGroup) RemoveLeaves() error {
	for _, dir := range []string{names.PayloadName, names.GuardsName, "../" + g.Dir} {
		if err := g.Top().RemoveLeaf(dir); err != nil { // only a scope has a leaf for guards
			return err
		}
	}
	return nil
}

// Close waits for the manager's answer: the request for a scope needs the descriptors.
func (g *ControlGroup) Close() {
	g.Manager().AwaitAnswer()
	for _, c := range slices.Compact([]*cgroup.Group{g.Payload, g.top, g.Guards}) {
		_ = c.Close() // a directory, or nil
	}
}

// Frozen reports whether the group is frozen, by itself or from above.
func Frozen(g freeze.Target) bool {
	st, err := g.State()
	return err == nil && st.Frozen
}

// Members returns the payload or, without a cgroup, the tree.
func (g *ControlGroup) Members() freeze.Target {
	if g.IsTree() {
		return g.tree
	}
	return g.Payload
}

// Events is a descriptor with an event when the group may be empty, or -1.
func (g *ControlGroup) Events() int {
	if g.IsTree() {
		return -1
	}
	fd, _ := g.Payload.OpenFile("cgroup.events", unix.O_RDONLY) // -1 after an error: the helper polls
	return fd
}

// Directories returns the descriptors of the members' directory and of the guard's leaf; -1 for none.
func (g *ControlGroup) Directories() (payload, leaf int) { return g.Payload.FD(), g.Guards.FD() }

// Beside opens the directory to sweep, nil for none, and has the name of this group in it. For a tree it is
// where the groups of the backend cgroup are: whatever keeps a server from having one can have been left by
// another server.
func (g *ControlGroup) Beside() (parent *cgroup.Group, own string) {
	if !g.IsTree() {
		parent, _ = g.Top().Parent() // nil, after an error
		return parent, g.Dir
	}
	root, _, err := Position(0)
	if err != nil {
		return nil, ""
	}
	defer root.Close()
	parent, _ = root.Child(path.Join(names.Slice, strconv.Itoa(os.Getuid())))
	return parent, "" // nil, if no such server has run
}

// NotesText is the value of AttrNotes. It leaves out what is too long.
func NotesText(notes []string) string {
	text := strings.Join(notes, "\n")
	return strings.ToValidUTF8(text[:min(len(text), 1000)], "")
}

// Made describes how a directory was made: how long ago, or how long ago one in it was made or removed, and
// with which permissions.
func Made(dir *cgroup.Group) (age time.Duration, mode uint32) {
	var st unix.Stat_t
	_ = unix.Fstat(dir.FD(), &st) // it can't fail: the directory is open
	return time.Since(time.Unix(st.Mtim.Unix())), st.Mode & 0o777
}

// Populated takes an unreadable state for populated: a member that does not exist costs time, and the
// opposite mistake leaves a process alive.
func Populated(g freeze.Target) bool {
	st, err := g.State()
	return err != nil || st.Populated
}

// DescribeStuck returns a text about members that SIGKILL has not ended, for people; "" for an empty list.
func DescribeStuck(all []freeze.Stuck) string {
	var parts []string
	for _, m := range all {
		parts = append(parts, m.Text)
	}
	return strings.Join(parts, ", ")
}

// AnyMain is for SpareForeign without the pid of the main process, which has the tag until it removes that.
const AnyMain = 0

// SpareForeign leaves out the children that the launcher had before it was one, with their descendants and
// orphans. A child of the server is the main process, or carries the tag.
func SpareForeign(below *freeze.Tree, tag freeze.Tag, main int) {
	launcher := below.Root.PID
	spared := below.Spare
	below.Spare = func(st proc.Stat) (bool, error) {
		if isSpared, err := spared(st); isSpared || err != nil {
			return isSpared, err
		}
		return st.PPID == launcher && st.PID != main && !tag.On(st.PID), nil
	}
}

// Below is the tree of a launcher's descendants and of a tag, but for the calling process and those that are
// spared: where init does not reap, the guard is a child of the launcher.
func Below(launcher freeze.Root, tag freeze.Tag, spared ...int) *freeze.Tree {
	spared = append(spared, os.Getpid())
	spare := func(st proc.Stat) (bool, error) { return slices.Contains(spared, st.PID), nil }
	return &freeze.Tree{Root: &launcher, Tag: tag, Owner: os.Getuid(), Spare: spare}
}
