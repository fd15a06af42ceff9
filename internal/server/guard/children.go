// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signalMain signals by pid: only this process reaps its child.
func (l *Launcher) signalMain(sig unix.Signal) {
	if !l.page.Exited {
		signalChild(l.mainPID, sig)
	}
}

// reap waits for all children that have ended: the main process, and orphans of the server.
func (l *Launcher) reap() {
	for {
		const how = unix.WNOHANG | unix.WUNTRACED // without __WALL no guard counts that is a child
		status := uint32(0)
		pid, e := sys(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), how, 0, 0)
		switch {
		case e != 0 || pid == 0:
			l.page.Childless = l.isChildless(e)
			if l.page.Exited {
				l.mainEnded()
			}
			return
		case int32(pid) != l.mainPID || l.page.Exited:
		case status&0xff == 0x7f:
			l.stopToo(unix.Signal(status >> 8))
		default:
			l.page.Status = status
			l.page.Exited = true
		}
	}
}

// isChildless reports whether the server has no process among the children. errno is of wait4(2), for all
// that have ended.
func (l *Launcher) isChildless(errno syscall.Errno) bool {
	return errno == syscall.ECHILD || errno == 0 && l.page.Foreign && !l.visitChildren(false)
}

// visitChildren reports whether one of the children is the server's, also if it can't read which there are.
// It kills those if wanted.
func (l *Launcher) visitChildren(kills bool) (found bool) {
	pid := int32(0)
	for offset := uintptr(0); ; {
		at, size := uintptr(unsafe.Pointer(&l.buf)), unsafe.Sizeof(l.buf)
		n, e := sys(unix.SYS_PREAD64, uintptr(l.children), at, size, offset, 0)
		if e != 0 || n == 0 {
			return found || e != 0
		}
		offset += n
		for i := uintptr(0); i < n; i++ {
			c := l.buf[i&(unsafe.Sizeof(l.buf)-1)]
			if c >= '0' && c <= '9' {
				pid = pid*10 + int32(c-'0')
				continue
			}
			if pid != 0 && l.isOfServer(pid) {
				found = true
				if kills {
					signalChild(pid, unix.SIGKILL)
				}
			}
			pid = 0
		}
	}
}

// isOfServer reports whether a child is the server's: not the guard, and not one that this process had before
// it was mcpscope, or an orphan of such.
func (l *Launcher) isOfServer(pid int32) bool {
	if pid == l.page.GuardPID || !l.page.Foreign {
		return pid != l.page.GuardPID
	}
	return pid == l.mainPID && !l.page.Exited || isTagged(pid, l.guards.tag())
}

// killChildren kills all descendants, for a guard that can start no brain: an orphan becomes a child of this
// process as soon as its parents are dead.
func (l *Launcher) killChildren() {
	for round := int64(1); round < 5000; round++ {
		l.reap()
		if l.page.Childless {
			return
		}
		l.visitChildren(true)
		sleep(min(round*50e3, 2e6)) // no event says that a child of a killed one arrives
	}
}

// awaitStatus waits for a main process that has ended, and is still to be reaped.
func (l *Launcher) awaitStatus() {
	for try := 0; try < 5000 && !l.page.Exited; try++ {
		status := uint32(0)
		at := uintptr(unsafe.Pointer(&status))
		pid, e := sys(unix.SYS_WAIT4, uintptr(l.mainPID), at, unix.WNOHANG|unix.WALL, 0, 0)
		if e == 0 && int32(pid) == l.mainPID {
			l.page.Status = status
			l.page.Exited = true
			return
		}
		sleep(1e6) // nothing reads SIGCHLD any more
	}
}

// forgetMain reaps a main process that was forked before its group, and has not started: it exits when its
// socket is closed.
func (l *Launcher) forgetMain() {
	if l.waiting >= 0 {
		closeFD(l.waiting)
		l.waiting = -1
		sys(unix.SYS_WAIT4, uintptr(l.mainPID), 0, unix.WALL, 0, 0)
	}
	l.mainPID = 0
}

// hasChildren reports whether this process has children (waitid(2)): of a program that has executed mcpscope.
func hasChildren() bool {
	const how = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT | unix.WALL
	_, e := sys(unix.SYS_WAITID, unix.P_ALL, 0, 0, how, 0)
	return e != syscall.ECHILD
}
