// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// TreeGuard is the guard of a tree, as another process sees it. A tree has no directory for attributes. What
// is known of the server is on the guard's page, which other processes of its user, and root's, read by way
// of /proc/PID/fd.
type TreeGuard struct {
	PID, UID int
	PIDFD    int
	Config   protocol.Config
	Cause    protocol.Cause
}

// othersLookMost bounds the look at processes of other users, which can have as many descriptors as they
// like.
const othersLookMost = time.Second

// errLate: there was no time left for a process of another user.
var errLate = fmt.Errorf(
	"processes of other users take more than %v to look at: %w", othersLookMost, unix.ETIMEDOUT)

var errNoTree = errors.New("no guard of a tree")

// OpenTree returns the guard pid of a tree, nil if it is none that belongs to uid. What its page says may be
// forged, so its descendants count only as far as its owner could signal them: see freeze.Tree.
func OpenTree(pid, uid int) *TreeGuard {
	left := othersLookMost
	t, _ := openTree(pid, uid, &left)
	return t
}

// openTree looks at a process of another user for the time that is left.
func openTree(pid, uid int, left *time.Duration) (*TreeGuard, error) {
	st, err := proc.ReadStat(pid)
	if err != nil || !group.IsGuard(st) {
		return nil, errNoTree
	}
	if where, err := proc.ReadCgroup(pid); err == nil && strings.HasSuffix(where, "/"+protocol.GuardsName) {
		return nil, errNoTree // of a group
	}
	var of unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &of) != nil || uid != hierarchy.Everyone && int(of.Uid) != uid {
		return nil, errNoTree
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	t := &TreeGuard{PID: pid, UID: int(of.Uid), PIDFD: pidfd}
	if begin := time.Now(); t.UID == os.Getuid() {
		err = t.readPage(st.Comm, time.Time{})
	} else {
		err = t.readPage(st.Comm, begin.Add(*left))
		*left -= time.Since(begin)
	}
	if err == nil && !(freeze.Root{PID: pid, PIDFD: pidfd}).Alive() { // what we have opened may be another's
		err = errNoTree
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *TreeGuard) Close() { _ = unix.Close(t.PIDFD) }

// readPage finds the page among the descriptors of the guard: the one of the server whose id is its name.
func (t *TreeGuard) readPage(comm string, late time.Time) error {
	dir := fmt.Sprintf("/proc/%d/fd", t.PID)
	entries, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer entries.Close()
	for {
		if !late.IsZero() && time.Now().After(late) {
			return errLate
		}
		names, err := entries.Readdirnames(64)
		if err != nil {
			return errNoTree // io.EOF, or it has ended
		}
		for _, name := range names {
			if t.readPageAt(dir+"/"+name) && comm == protocol.GuardComm(t.Config.Group.ID) {
				return nil
			}
		}
	}
}

func (t *TreeGuard) readPageAt(path string) bool {
	target, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(target, "/memfd:"+page.FileName) {
		return false
	}
	fd, err := reopenMemoryFile(path, t.UID)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	text, cause, err := page.Read(fd)
	if err != nil || protocol.Decode(text, &t.Config) != nil {
		return false
	}
	t.Cause = protocol.CauseOf(cause)
	return t.Config.Group.Backend == protocol.Tree
}

// reopenMemoryFile opens a memory file of a user once more, by its path below /proc/PID/fd. What is there may
// be anything that this user has opened: a file of somebody else's, a pipe, a file of a file system that
// hangs. So it is looked at before it is opened: a regular file of that user on the kernel's own mount, on
// which all memory files are and which nobody can reach by a path.
func reopenMemoryFile(path string, uid int) (int, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open memory file: %w", err)
	}
	defer unix.Close(at)
	mount, err := memoryMount()
	if err != nil {
		return -1, err
	}
	var st unix.Statx_t
	// without asking the file system, which could be one in user space
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(at, "", how, unix.STATX_BASIC_STATS, &st); err != nil {
		return -1, fmt.Errorf("look at memory file: %w", err)
	}
	on := unix.Mkdev(st.Dev_major, st.Dev_minor)
	if st.Mode&unix.S_IFMT != unix.S_IFREG || on != mount || int(st.Uid) != uid {
		return -1, fmt.Errorf("open memory file: %s is none of user %d: %w", path, uid, unix.EINVAL)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open memory file: %w", err)
	}
	return fd, nil
}

// memoryMount is the device number of the mount that memory files are on.
func memoryMount() (uint64, error) {
	fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("create memory file: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("look at memory file: %w", err)
	}
	return st.Dev, nil
}

// Tree is what is below the guard. Where that is another user's, only processes count that this user could
// signal.
func (t *TreeGuard) Tree() *freeze.Tree {
	below := group.Below(group.Guarded{PID: t.PID, PIDFD: t.PIDFD})
	below.Tag, below.Owner, below.OwnersOnly = group.TagOf(t.Config.Group.ID), t.UID, t.UID != os.Getuid()
	spare := below.Spare
	below.Spare = func(st proc.Stat) bool { return spare(st) || group.IsBrain(st, t.PID) }
	return below
}

// EachTree visits the guards of a user's trees. Each is open for the call, and longer if visit keeps
// it. The error is errLate if other users have made this too long.
func EachTree(uid int, visit func(*TreeGuard) (keep bool)) (late error) {
	left := othersLookMost
	_ = proc.Each(func(pid int) bool { // without /proc there is no tree
		t, err := openTree(pid, uid, &left)
		if t != nil && !visit(t) {
			t.Close()
		}
		if err == errLate {
			late = err
		}
		return true
	})
	return late
}

// LauncherLives tells whether a tree has a launcher, which looks after the guard.
func (t *TreeGuard) LauncherLives() bool {
	id, ok := group.ParseIdentity(t.Config.Launcher)
	elsewhere := id.Namespace != hierarchy.PIDNamespace()
	return ok && id.Alive() && (elsewhere || !group.TagOf(t.Config.Group.ID).On(id.PID))
}

// Stopped tells whether the guard can't act.
func (t *TreeGuard) Stopped() bool {
	st, err := proc.ReadStat(t.PID)
	return err == nil && st.Stopped()
}
