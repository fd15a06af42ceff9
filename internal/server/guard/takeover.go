// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// takeOver puts another brain in the place of one that is dead or does not react. Until its Go runtime is
// up, a payload to be stopped is frozen, or without a term grace killed (cgroup.kill, Linux 5.14). If no
// brain can start, or the next one dies, the guard kills, and starts one more for the report.
func (p *process) takeOver(dead bool) {
	p.page.Reign++
	p.deaths++
	p.dueAsked = p.page.Due // of the brain before
	if p.page.Payload >= 0 && (dead || p.page.Phase > page.Running) &&
		(!dead || !p.page.Graceless || writeFile(p.page.Payload, killFile, '1') != 0) {
		writeFile(p.page.Payload, freezeFile, '1')
	}
	if p.deaths == 1 && p.startBrain() {
		return
	}
	p.killAll()
	if p.deaths > 2 || !p.startBrain() {
		p.removeDirectories()
		exit(1)
	}
	p.deaths = 2
}

// startBrain starts one, with a socket in the place of the old one.
func (p *process) startBrain() bool {
	var ends [2]int32
	const how = unix.SOCK_STREAM | unix.SOCK_CLOEXEC
	if _, e := sys(unix.SYS_SOCKETPAIR, unix.AF_UNIX, how, 0, uintptr(unsafe.Pointer(&ends)), 0); e != 0 {
		return false
	}
	sys(unix.SYS_DUP3, uintptr(ends[0]), uintptr(p.sock), unix.O_CLOEXEC, 0, 0)
	sys(unix.SYS_DUP3, uintptr(ends[1]), uintptr(p.brainEnd), unix.O_CLOEXEC, 0, 0)
	closeFD(ends[0])
	closeFD(ends[1])
	pid := p.spawn(p.page.Leaf, true) // in a scope the guard is elsewhere
	p.holdBrainEnd()
	p.brainPID = int32(max(pid, 0))
	p.page.Asked++ // Attach is the answer
	p.answerBy, p.continued = now()+startWithin, false
	return pid > 0
}

// executeBrain is the brain's process until its exec.
func (p *process) executeBrain() {
	for i := 0; i < p.kept; i++ {
		fd := p.keep[i&(mostKept-1)]
		if i < p.shared || fd == p.page.Payload {
			sys(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0, 0, 0)
		}
	}
	for number := uint32(0); p.gate.Wanted; number++ {
		kept, ok := p.serverKept(number)
		if !ok {
			break
		}
		passOn(kept)
	}
	none := uint64(0)
	setMask(&none, nil)
	// The descriptor is of the file that this brain's predecessor was, even if the file is deleted or
	// replaced by now.
	sys(unix.SYS_EXECVEAT, uintptr(p.page.Program), address("\x00"), p.argv, p.env, unix.AT_EMPTY_PATH)
	exit(125)
}

// killAll is a stop without a grace. A member that left the group is the guard's child as soon as its parents
// are dead, as is one that cgroup.kill does not reach: its first thread has exited and others live, or the
// kernel is older than 5.14.
func (p *process) killAll() {
	for round := int64(1); round < 5000; round++ {
		if p.page.Payload >= 0 {
			writeFile(p.page.Payload, killFile, '1')
		}
		if p.reap(); p.childless && !p.populated() {
			return
		}
		p.killChildren()
		sleep(min(round*50e3, 2e6)) // no event says that a child of a killed one arrives
	}
}

func (p *process) read(fd int32) uintptr {
	n, e := sys(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&p.buf)), unsafe.Sizeof(p.buf), 0, 0)
	if e != 0 {
		return 0
	}
	return n
}

// populated reports whether cgroup.events of the payload says so. One that cannot be read is not.
func (p *process) populated() bool {
	fd, _ := openAt(p.page.Payload, eventsFile, 0)
	n := p.read(fd) // "populated 0\nfrozen 0"
	closeFD(fd)
	return n >= 20 && p.buf[10] == '1'
}

func (p *process) killChildren() {
	pid := int32(0)
	for i, n := uintptr(0), p.read(p.children); i < n; i++ {
		c := p.buf[i&(unsafe.Sizeof(p.buf)-1)]
		switch {
		case c >= '0' && c <= '9':
			pid = pid*10 + int32(c-'0')
		case pid != 0:
			signalChild(pid, unix.SIGKILL)
			pid = 0
		}
	}
}

// removeDirectories is for a guard whose brain can't. It leaves to a sweep what members have made below them.
func (p *process) removeDirectories() {
	enter(p.page.Leaf) // it may be in one of them
	all := &p.page.Directories
	for at := 0; at < len(all) && all[at] != 0; {
		for try := 0; try < 2000; try++ {
			_, e := sys(unix.SYS_UNLINKAT, uintptr(p.page.Parent), uintptr(unsafe.Pointer(&all[at])),
				unix.AT_REMOVEDIR, 0, 0)
			if e != unix.EBUSY {
				break
			}
			sleep(50e3) // no event says that the last process has left
		}
		for at < len(all) && all[at] != 0 {
			at++
		}
		at++
	}
}
