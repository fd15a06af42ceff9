// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/parallel"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// TreeGuard is the process that has the page of a tree, as another process sees it: the server's guard, or
// the watcher of its gateway. A tree has no directory for attributes. The facts of the server are on that
// page, which other processes of its user, and root's, read through /proc/PID/fd.
type TreeGuard struct {
	PID, UID  int
	PIDFD     int
	IsWatcher bool // of a gateway: it outlives the server
	Config    protocol.Config
	Cause     causes.Cause
	page      int // the memory file
	launcher  int // pidfd; 0 before Tree
}

// Bounds on the descriptors that are read. A process of another user can be named like a guard, and have
// as many as it likes.
const (
	guardFilesMost    = 64      // more than a guard has open
	watchersFilesMost = 1 << 15 // of all watchers together
)

// treeSearch looks for the trees of a choice of users.
type treeSearch struct {
	users         group.Users
	watchersFiles int             // descriptors of watchers that may still be read
	watched       map[string]bool // servers of watchers: a gateway has two watchers for a moment
	grouped       map[Owned]bool
}

// Owned is a server of a user.
type Owned struct {
	UID int
	ID  string
}

// EachTree visits the trees of a choice of users, which visit closes. grouped are servers that are known to
// have directories, and so no trees: to open the files of their guards would take most of the time.
func EachTree(users group.Users, grouped map[Owned]bool, visit func(*TreeGuard)) {
	s := &treeSearch{
		users: users, watchersFiles: watchersFilesMost, watched: map[string]bool{}, grouped: grouped,
	}
	var pids []int
	_ = proc.Each(func(pid int) bool { // without /proc there is no tree
		pids = append(pids, pid)
		return true
	})
	comms := make([]string, len(pids))
	parallel.Each(len(pids), func(i int) {
		comms[i], _ = proc.Comm(pids[i]) // which a process can choose; "" if it has ended
	})
	for i, pid := range pids {
		for _, t := range s.of(pid, comms[i]) {
			visit(t)
		}
	}
}

// of returns the trees whose pages a process has, none if that does not belong to one of the users. The pages
// may be forged, so the descendants of a launcher on them count only as far as the owner could signal them:
// see freeze.Tree.
func (s *treeSearch) of(pid int, comm string) (all []*TreeGuard) {
	id := names.GuardedBy(comm)
	isGuard := id != "" && group.TagOf(id) != 0
	if !isGuard && comm != names.WatcherOfTrees {
		return nil
	}
	var of unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &of) != nil || !s.users.Include(int(of.Uid)) {
		return nil
	}
	if s.grouped[Owned{int(of.Uid), id}] {
		return nil
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(pidfd)
	for _, fd := range s.openPages(pid, int(of.Uid), !isGuard) {
		t := &TreeGuard{PID: pid, UID: int(of.Uid), IsWatcher: !isGuard, page: fd, PIDFD: -1}
		if t.readPage(id) && !s.isKnown(t) {
			t.PIDFD, _ = unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 0) // -1 without a descriptor
		}
		if t.PIDFD < 0 || linux.Ended(pidfd) { // what was read may be another process's
			t.Close()
			continue
		}
		all = append(all, t)
	}
	return all
}

// isKnown reports whether another watcher has had the server, too, and remembers it.
func (s *treeSearch) isKnown(t *TreeGuard) bool {
	key := fmt.Sprint(t.UID, t.Config.Group.ID)
	known := t.IsWatcher && s.watched[key]
	s.watched[key] = true
	return known
}

// Close closes the descriptors.
func (t *TreeGuard) Close() {
	_ = unix.Close(t.PIDFD) // a pidfd, or -1
	_ = unix.Close(t.page)  // nothing to flush
	if t.launcher > 0 {
		_ = unix.Close(t.launcher) // a pidfd
	}
}

// openPages opens the memory files that are named as pages.
func (s *treeSearch) openPages(pid, uid int, isWatcher bool) (fds []int) {
	filesMost := guardFilesMost
	if isWatcher {
		filesMost = s.watchersFiles
	}
	if filesMost <= 0 { // Readdirnames would read all
		return nil
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer entries.Close()
	numbers, _ := entries.Readdirnames(filesMost) // none, if it has ended
	if isWatcher {
		s.watchersFiles -= len(numbers)
	}
	for _, name := range numbers {
		target, err := os.Readlink(dir + "/" + name)
		if err != nil || !strings.HasPrefix(target, "/memfd:"+page.FileName) {
			continue
		}
		fd := reopenMemoryFile(dir+"/"+name, uid)
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// readPage reports whether the page is that of a tree. id is the server of a guard, "" for any of a
// watcher's.
func (t *TreeGuard) readPage(id string) bool {
	found, err := page.Read(t.page)
	if err != nil || !found.IsServer || protocol.Decode(found.Config, &t.Config) != nil {
		return false
	}
	t.Cause = causes.Of(uint32(found.Cause))
	c := &t.Config
	if c.Group.Backend != names.Tree || c.StartedByClient != t.IsWatcher || group.TagOf(c.Group.ID) == 0 {
		return false
	}
	if t.IsWatcher {
		return true
	}
	st, _ := proc.ReadStatus(t.PID) // zero, if it has ended
	// a helper is called like the guard until it executes its program
	return st.Inside == found.Guard && c.Group.ID == id
}

// reopenMemoryFile opens a memory file of a user once more, by its path below /proc/PID/fd, or returns -1.
// The path may lead to anything that this user has opened: a file of another user, a pipe, a file of a file
// system that hangs. So it is checked before it is opened: it must be a regular file of that user on the
// kernel's own mount, which holds all memory files and which no path reaches.
func reopenMemoryFile(path string, uid int) int {
	own, _ := unix.MemfdCreate("", unix.MFD_CLOEXEC) // -1 is on no mount
	defer unix.Close(own)
	at, _ := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	defer unix.Close(at)
	// without asking the file system, which could be one in user space
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	var ours, st unix.Statx_t
	if unix.Statx(own, "", how, unix.STATX_BASIC_STATS, &ours) != nil ||
		unix.Statx(at, "", how, unix.STATX_BASIC_STATS, &st) != nil ||
		st.Mode&unix.S_IFMT != unix.S_IFREG || st.Dev_major != ours.Dev_major ||
		st.Dev_minor != ours.Dev_minor || int(st.Uid) != uid {
		return -1
	}
	fd, _ := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDWR|unix.O_CLOEXEC, 0)
	return fd
}

// Tree is the tree below the launcher, while that lives, with the processes that carry the tag. If the guard
// is another user's, only processes count that this user could signal. The page may name any process as the
// launcher: Close has to follow.
func (t *TreeGuard) Tree() *freeze.Tree {
	tag := group.TagOf(t.Config.Group.ID)
	if t.IsWatcher {
		return &freeze.Tree{Tag: tag, Owner: t.UID}
	}
	id := t.Config.Facts.Launcher
	if t.launcher == 0 {
		t.launcher = -1
		if id.Namespace == group.PIDNamespace() {
			t.launcher, _ = unix.PidfdOpen(id.PID, 0) // -1, if it has ended
		}
	}
	below := group.Below(freeze.Root{PID: id.PID, PIDFD: t.launcher}, tag, t.PID)
	if t.Config.Foreign {
		group.SpareForeign(below, tag, group.AnyMain)
	}
	if t.launcher < 0 || !group.Alive(id) { // asked when the pidfd is open: the pid is not another's
		below.Root = nil
	}
	below.Owner = t.UID
	return below
}

// FindTree returns the guard of a user's tree with that id, which the caller closes, or nil without one.
func FindTree(uid int, id string) (found *TreeGuard) {
	EachTree(group.OneUser(uid), nil, func(t *TreeGuard) {
		if found == nil && !t.IsWatcher && t.Config.Group.ID == id {
			found = t
		} else {
			t.Close()
		}
	})
	return found
}

// RecordRequest records a request of a stop for the next guard: the present guard may be killed before it
// reacts. RequestStop has to follow.
func (t *TreeGuard) RecordRequest() {
	_ = page.RequestStop(t.page) // a guard that lives gets the signal
}

// RequestStop requests a stop of the server with its own term grace. It continues a guard or a watcher that
// a member has stopped.
func (t *TreeGuard) RequestStop() error {
	if t.IsWatcher {
		if err := page.RequestStop(t.page); err != nil {
			return err
		}
	}
	return RequestStop(t.PIDFD)
}

// RequestStop requests a stop of a guard, and continues one that a member has stopped.
func RequestStop(guard int) error {
	for _, sig := range []unix.Signal{names.StopSignal, unix.SIGCONT} {
		if err := unix.PidfdSendSignal(guard, sig, nil, 0); err != nil {
			return proc.IgnoreGone(fmt.Errorf("request a stop: %w", err))
		}
	}
	return nil
}

// LauncherLives reports whether a tree has a launcher, which would start another guard.
func (t *TreeGuard) LauncherLives() bool {
	id := t.Config.Facts.Launcher
	elsewhere := id.Namespace != group.PIDNamespace()
	return id.PID > 0 && group.Alive(id) && (elsewhere || !group.TagOf(t.Config.Group.ID).On(id.PID))
}

// Abandoned reports whether the guard is stopped, and there is no launcher. A sweep stops such a tree. A
// watcher that is stopped is continued by its guard.
func (t *TreeGuard) Abandoned() bool {
	if t.IsWatcher {
		return false
	}
	st, _ := proc.ReadStat(t.PID) // zero, if it has exited
	return st.Stopped() && !t.LauncherLives()
}
