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
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// TreeGuard is the guard of a tree, as another process sees it. A tree has no directory for attributes. The
// facts of the server are on the guard's page, which other processes of its user, and root's, read by way
// of /proc/PID/fd.
type TreeGuard struct {
	PID, UID int
	PIDFD    int
	Config   protocol.Config
	Cause    causes.Cause
	launcher int // pidfd; 0 before Tree
}

// OpenTree returns the guard pid of a tree, nil if pid is not a guard that belongs to uid. Its page may be
// forged, so its descendants count only as far as its owner could signal them: see freeze.Tree.
func OpenTree(pid, uid int) *TreeGuard {
	comm, err := proc.Comm(pid) // which a process can choose
	id := names.GuardedBy(comm)
	if err != nil || id == "" || group.TagOf(id) == 0 {
		return nil
	}
	var of unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &of) != nil || uid != group.Everyone && int(of.Uid) != uid {
		return nil
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	t := &TreeGuard{PID: pid, UID: int(of.Uid), PIDFD: pidfd}
	if !t.readPage(id) || linux.Ended(pidfd) { // what was read may be another process's
		t.Close()
		return nil
	}
	return t
}

// Close closes the descriptors.
func (t *TreeGuard) Close() {
	_ = unix.Close(t.PIDFD)
	if t.launcher > 0 {
		_ = unix.Close(t.launcher) // a pidfd
	}
}

// filesMost is more than a guard has open. A process of another user can be named like a guard, and have as
// many descriptors as it likes.
const filesMost = 64

// readPage finds the page among the descriptors of the guard. Its server has the id that is the guard's name.
func (t *TreeGuard) readPage(id string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", t.PID)
	entries, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer entries.Close()
	numbers, _ := entries.Readdirnames(filesMost) // none, if it has ended
	for _, name := range numbers {
		target, err := os.Readlink(dir + "/" + name)
		if err != nil || !strings.HasPrefix(target, "/memfd:"+page.FileName) {
			continue
		}
		fd := reopenMemoryFile(dir+"/"+name, t.UID)
		defer unix.Close(fd)
		text, cause, guard, err := page.Read(fd)
		t.Cause = causes.Of(cause)
		st, _ := proc.ReadStatus(t.PID) // zero, if it has ended
		if st.Inside != guard {         // a brain is called like the guard until it executes its program
			return false
		}
		return err == nil && protocol.Decode(text, &t.Config) == nil &&
			t.Config.Group.Backend == names.Tree && t.Config.Group.ID == id
	}
	return false
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
	id := t.Config.Launcher
	if t.launcher == 0 {
		t.launcher = -1
		if id.Namespace == group.PIDNamespace() {
			t.launcher, _ = unix.PidfdOpen(id.PID, 0) // -1, if it has ended
		}
	}
	tag := group.TagOf(t.Config.Group.ID)
	below := group.Below(freeze.Root{PID: id.PID, PIDFD: t.launcher}, tag, t.PID)
	if t.Config.Foreign {
		group.SpareForeign(below, tag, 0)
	}
	if t.launcher < 0 || !group.Alive(id) { // asked when the pidfd is open: the pid is not another's
		below.Root = nil
	}
	below.Owner = t.UID
	return below
}

// EachTree visits the guards of a user's trees, which visit closes.
func EachTree(uid int, visit func(*TreeGuard)) {
	_ = proc.Each(func(pid int) bool { // without /proc there is no tree
		if t := OpenTree(pid, uid); t != nil {
			visit(t)
		}
		return true
	})
}

// LauncherLives reports whether a tree has a launcher, which looks after the guard.
func (t *TreeGuard) LauncherLives() bool {
	id := t.Config.Launcher
	elsewhere := id.Namespace != group.PIDNamespace()
	return id.PID > 0 && group.Alive(id) && (elsewhere || !group.TagOf(t.Config.Group.ID).On(id.PID))
}

// Abandoned reports whether the guard is stopped, and there is no launcher that would continue it. A sweep
// stops such a tree.
func (t *TreeGuard) Abandoned() bool {
	st, _ := proc.ReadStat(t.PID) // zero, if it has exited
	return st.Stopped() && !t.LauncherLives()
}
