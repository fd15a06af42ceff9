// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// children signals and reaps the children of the launcher: the main process, and orphans of the server.
// Others are a guard, from the second one on, and children of a program that has executed mcpscope.
type children struct {
	page    *page.Page
	main    int32       // pid of the main process
	list    int32       // the file that lists the children of this process, or -1
	tag     uint64      // of the server's processes: see isOfServer
	stopped unix.Signal // the last one that has stopped the main process, or 0
	buf     [512]byte
}

// openList opens the file of this thread, which is the first one.
func (c *children) openList() { c.list, _ = openAt(unix.AT_FDCWD, childrenFile, 0) }

// signalMain signals by pid: only this process reaps its child.
func (c *children) signalMain(sig unix.Signal) {
	if !c.page.Exited() {
		signalChild(c.main, sig)
	}
}

// reap waits for all children that have ended.
func (c *children) reap() {
	for {
		const how = unix.WNOHANG | unix.WUNTRACED // without __WALL no guard counts that is a child
		status := uint32(0)
		pid, e := sys(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), how, 0, 0)
		switch {
		case e != 0 || pid == 0:
			c.page.ByLauncher.Childless = c.areNone(e)
			return
		case int32(pid) != c.main || c.page.Exited():
		case status&0xff == 0x7f:
			c.stopped = unix.Signal(status >> 8)
		default:
			c.page.ByLauncher.ExitedAt = now()
			c.page.SetStatus(status)
		}
	}
}

// areNone reports whether the server has no process among the children. errno is of wait4(2), for all that
// have ended.
func (c *children) areNone(errno syscall.Errno) bool {
	return errno == syscall.ECHILD || errno == 0 && c.page.HasOthers() && !c.hasServers()
}

// hasServers reports whether a child is the server's, also if it can't read which there are.
func (c *children) hasServers() bool { return c.signalServers(0) }

// signalServers sends a signal to those children that are the server's; 0 sends none. It reports whether
// there is one.
func (c *children) signalServers(sig unix.Signal) (found bool) {
	pids := pidList{file: c.list, buf: &c.buf}
	for pids.next() {
		if pids.pid == 0 || !c.isOfServer(pids.pid) {
			continue
		}
		found = true
		if sig != 0 {
			signalChild(pids.pid, sig)
		}
	}
	return found || pids.hasGaps
}

// isOfServer reports whether a child is the server's: not the guard, not one that this process had before it
// was mcpscope, and not one that a pattern keeps, or an orphan of such.
func (c *children) isOfServer(pid int32) bool {
	if pid == c.page.ByGuard.GuardPID || !c.page.HasOthers() {
		return pid != c.page.ByGuard.GuardPID
	}
	if pid == c.main && !c.page.Exited() || isTagged(pid, c.tag) {
		return true
	}
	return !c.page.Order.Foreign && !isKept(pid)
}

// isKept reports whether a process is in a group of kept processes: names.KeptPrefix is in its path.
func isKept(pid int32) bool {
	const prefix = "/mcpscope-kept-"
	fd := openProcess(int(pid), "/cgroup")
	if fd < 0 {
		return false
	}
	buf := [256]byte{}
	matched := 0
	for matched < len(prefix) {
		addr := uintptr(unsafe.Pointer(&buf))
		n, e := sys(unix.SYS_READ, uintptr(fd), addr, unsafe.Sizeof(buf), 0, 0)
		if e != 0 || n == 0 {
			break
		}
		for i := uintptr(0); i < n && matched < len(prefix); i++ {
			switch at := buf[i&255]; {
			case at == prefix[matched]:
				matched++
			case at == prefix[0]:
				matched = 1
			default:
				matched = 0
			}
		}
	}
	closeFD(fd)
	return matched == len(prefix)
}

// killAll kills all descendants: an orphan becomes a child of this process as soon as its parents are dead. A
// child in uninterruptible sleep stays, so it goes on for some 100 ms. The guard asks for more.
func (c *children) killAll() {
	const rounds = 80
	for round := int64(1); round < rounds; round++ {
		c.reap()
		if c.page.ByLauncher.Childless {
			return
		}
		c.signalMain(unix.SIGKILL) // the list may be missing
		c.signalServers(unix.SIGKILL)
		sleep(min(round*50e3, 2e6)) // no event says that a child of a killed one arrives
	}
}

// statusTries is five seconds.
const statusTries = 5000

// awaitStatus waits for a main process that has ended, and is still to be reaped.
func (c *children) awaitStatus() {
	for try := 0; try < statusTries && !c.page.Exited(); try++ {
		c.reap()
		sleep(1e6) // nothing reads SIGCHLD any more
	}
}

// HasChildren reports whether this process has children (waitid(2)): of a program that has executed mcpscope.
func HasChildren() bool {
	const how = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT | unix.WALL
	_, e := sys(unix.SYS_WAITID, unix.P_ALL, 0, 0, how, 0)
	return e != syscall.ECHILD
}
