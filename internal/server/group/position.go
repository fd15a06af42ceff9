// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Position opens the root of the cgroup2 mount, and has the path of a process from there; 0 is the calling
// one.
func Position(pid int) (root *cgroup.Group, path string, err error) {
	if path, err = proc.ReadCgroup(pid); err != nil {
		return nil, "", err
	}
	if root, err = openRoot(); err != nil {
		return nil, "", err
	}
	if pid == 0 {
		pid = os.Getpid()
	}
	if seesAll(root) {
		return root, path, nil
	}
	b, err := root.Read("." + path + "/cgroup.procs")
	pids, _ := proc.ParsePIDs(b) // as far as they can be read
	// with a private cgroup namespace and the host's hierarchy mounted, "/" would be the host's root
	if proc.IsGone(err) || err == nil && !slices.Contains(pids, pid) {
		err = proc.Unsupported(root.Path() + " shows another part of the hierarchy")
	}
	if err != nil {
		_ = root.Close() // a directory
		return nil, "", err
	}
	return root, path, nil
}

// seesAll: the mount shows the whole hierarchy, and so does /proc. To look for a process takes longer.
func seesAll(root *cgroup.Group) bool {
	const initial, first = 0xEFFFFFFB, 1 // PROC_CGROUP_INIT_INO; the inode number of the first cgroup
	var st unix.Stat_t
	return unix.Fstat(root.FD(), &st) == nil && st.Ino == first && namespace("cgroup") == initial
}

// openRoot opens the cgroup2 hierarchy where every init system mounts it. In hybrid mode version 1 is beside
// it.
func openRoot() (*cgroup.Group, error) {
	const usual = "/sys/fs/cgroup"
	root, err := cgroup.Open(usual)
	if errors.Is(err, errors.ErrUnsupported) {
		root, err = cgroup.Open(usual + "/unified")
	}
	if errors.Is(err, unix.ENOENT) {
		err = proc.ErrNoCgroup2
	}
	return root, err
}

// parentsDeepest bounds the descent into what any user may have nested.
const parentsDeepest = 64

// Visit is a walk through the whole hierarchy, since there is no list of groups: they are in slices, in
// sessions, and in whatever was delegated to a client. A directory without others in it costs an open and a
// stat. Of the directories of other users root reads a bounded number: see foreignMost.
type Visit struct {
	Users Users // whose groups count
	// Groups is called for each directory with groups, after those in it.
	Groups func(path string, parent *cgroup.Group, dirs []string) error
	// Session is called for each session, after its groups, with the directory that it is in. It may be nil.
	Session func(path string, parent *cgroup.Group, dir string) error
	// Kept is called for each group of kept processes, with the directory that it is in. It may be nil.
	Kept func(path string, parent *cgroup.Group, dir string) error
	// Foreign is called with the visit of each tree of another user, which it makes. It may be nil.
	Foreign func(uid int, dir string, visit func() error) error
}

// All visits what there is. Where there can be no group it does nothing.
func (v *Visit) All() error {
	root, _, err := Position(0)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find our cgroup: %w", err)
	}
	defer root.Close()
	return v.inParents(root, root, 0, nil)
}

// inParents visits a directory with all below it.
func (v *Visit) inParents(root, dir *cgroup.Group, depth int, tree *foreignTree) error {
	children, err := tree.childrenOf(dir)
	if err != nil || depth > parentsDeepest {
		return nil // it has just gone, or is not for us
	}
	var errs []error
	for _, name := range children {
		if names.IsGroup(name) || names.IsKept(name) {
			continue
		}
		if child, err := dir.Child(name); err == nil { // or it has just gone, or is not for us
			errs = append(errs, v.inChild(root, child, depth+1, tree))
			_ = child.Close() // a directory
		}
	}
	path := strings.TrimPrefix(dir.Path(), root.Path())
	if v.Session != nil {
		for _, session := range tree.withRoomFor(dir, sessionsOf(v.Users, dir, children)) {
			errs = append(errs, v.Session(path, dir, session))
		}
	}
	if v.Kept != nil {
		for _, kept := range tree.withRoomFor(dir, keptOf(v.Users, dir, children)) {
			errs = append(errs, v.Kept(path, dir, kept))
		}
	}
	if dirs := tree.withRoomFor(dir, groupsOf(v.Users, dir, children)); len(dirs) > 0 {
		errs = append(errs, v.Groups(path, dir, dirs))
	}
	return errors.Join(errs...)
}

// inChild is inParents for a directory that can be the top of a foreign tree.
func (v *Visit) inChild(root, dir *cgroup.Group, depth int, tree *foreignTree) error {
	if tree != nil || !isForeign(dir) {
		return v.inParents(root, dir, depth, tree)
	}
	top := newForeignTree(dir)
	visit := func() error { return v.inParents(root, dir, depth, top) }
	var err error
	if v.Foreign != nil {
		err = v.Foreign(top.uid, dir.Path(), visit)
	} else {
		err = visit()
	}
	if top.isCut && v.Users.Include(top.uid) {
		err = errors.Join(err, &UnreadError{UID: top.uid, Dir: dir.Path()})
	}
	return err
}

// groupsOf returns the children of a directory that are groups of a choice of users. It overwrites children.
func groupsOf(users Users, parent *cgroup.Group, children []string) []string {
	return slices.DeleteFunc(children, func(name string) bool {
		return !names.IsGroup(name) || !isOwnedBy(users, parent, name)
	})
}

// sessionsOf is groupsOf for sessions. It leaves children as they are.
func sessionsOf(users Users, parent *cgroup.Group, children []string) []string {
	return namedOf(users, parent, children, names.IsSession)
}

// keptOf is sessionsOf for groups of kept processes.
func keptOf(users Users, parent *cgroup.Group, children []string) []string {
	return namedOf(users, parent, children, names.IsKept)
}

func namedOf(
	users Users, parent *cgroup.Group, children []string, isNamed func(string) bool,
) (found []string) {
	for _, name := range children {
		if isNamed(name) && isOwnedBy(users, parent, name) {
			found = append(found, name)
		}
	}
	return found
}

// isOwnedBy reports whether a directory belongs to a choice of users.
func isOwnedBy(users Users, parent *cgroup.Group, name string) bool {
	if users.IsEveryone() {
		return true
	}
	var st unix.Stat_t
	err := unix.Fstatat(parent.FD(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && users.Include(int(st.Uid))
}

// OwnIn lists the groups of the calling user in a directory, as far as that is possible.
func OwnIn(parent *cgroup.Group) []string {
	names, _ := parent.Children() // none, if it was removed
	return groupsOf(CallingUser(), parent, names)
}

// InitReaps reports whether PID 1 reaps orphans. In a container it may be an application that does not, and
// every guard would stay behind as a zombie. It knows the programs that are made to be PID 1 of a container.
func InitReaps() bool {
	const initial = 0xEFFFFFFC // PROC_PID_INIT_INO: the machine's own
	if PIDNamespace() == initial {
		return true
	}
	st, err := proc.ReadStat(1)
	return err == nil && strings.Contains(page.ReapingInits, " "+st.Comm+" ")
}

// PIDNamespace is the inode number of ours, 0 if that can't be read. A process is in one from its start on.
var PIDNamespace = sync.OnceValue(func() uint64 { return namespace("pid") })

// PIDNamespaceOf returns the inode of a process's pid namespace, 0 if it can't be read: of another user's,
// and of one that no other process may trace.
func PIDNamespaceOf(pid int) uint64 { return namespaceOf(strconv.Itoa(pid), "pid") }

func namespace(kind string) uint64 { return namespaceOf("self", kind) }

func namespaceOf(process, kind string) uint64 {
	var ns unix.Stat_t
	if unix.Stat("/proc/"+process+"/ns/"+kind, &ns) != nil {
		return 0
	}
	return ns.Ino
}

// Identify returns the identity of a process. If its start cannot be read, only the pid counts.
func Identify(pid int) (protocol.Identity, error) {
	st, err := proc.ReadStat(pid)
	return protocol.Identity{PID: pid, Start: st.StartTime, Namespace: PIDNamespace()}, err
}

// Alive reports whether the process may run. A pid of another pid namespace is unknown, so it may.
func Alive(i protocol.Identity) bool {
	if i.Namespace != PIDNamespace() {
		return true
	}
	st, err := proc.ReadStat(i.PID)
	if err != nil {
		return !proc.Exited(i.PID) // it is hidden (hidepid=2)
	}
	sameStart := i.Start == 0 || i.Start == st.StartTime
	return sameStart && st.State != 'Z'
}

// GuardsOf lists the processes in a leaf of guards by the id of their server. A member can move there and
// take such a name, so it skips a process with the tag of that id. hidden reports invisible processes: with
// hidepid=2 a guard is one, and all are in another pid namespace. A member can make the leaf unreadable.
func GuardsOf(dir *cgroup.Group, leaf string) (byID map[string]int, hidden bool) {
	b, err := dir.Read(leaf + "/cgroup.procs")
	if err != nil {
		return nil, !proc.IsGone(err) && !errors.Is(err, unix.EACCES)
	}
	pids, _ := proc.ParsePIDs(b) // as far as they can be read
	byID = map[string]int{}
	for _, pid := range pids {
		comm, err := proc.Comm(pid)
		id := names.GuardedBy(comm)
		switch {
		case pid == 0 || err != nil && !proc.Exited(pid):
			hidden = true
		case id != "" && !TagOf(id).On(pid):
			byID[id] = pid
		}
	}
	return byID, hidden
}
