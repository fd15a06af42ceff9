// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// goProcess is a Go process that a guard has started: a server's helper, or the watcher of a gateway.
type goProcess struct {
	sock   int32 // the guard's end of its socket, or -1 without such a process
	end    int32 // its own end, until it executes its program
	pid    int32
	deaths int               // of such processes, one after the other
	name   [nameRoom]byte    // first argument of a server's helper
	digits [numbers][11]byte // last arguments
}

const nameRoom = 32 // a power of two, so that a mask bounds an index

// deathsMost is so often one is started again, without a pause.
const deathsMost = 3

func (c *goProcess) isRunning() bool { return c.sock >= 0 }

// announce has it read the page, if one runs.
func (c *goProcess) announce() {
	if c.isRunning() {
		sendWord(c.sock, page.WordLook)
	}
}

const (
	forgottenWithin = 20e6 // the guard has to watch the server
	finishedWithin  = 1e9  // nothing is left to watch
	reapEach        = 100e3
)

// kill kills it, and reaps it if it ends in that time: a member may trace it.
func (c *goProcess) kill(within int64) {
	if c.pid <= 0 {
		return
	}
	signalChild(c.pid, unix.SIGKILL) // it may be stopped
	for waited := int64(0); waited < within; waited += reapEach {
		pid, e := sys(unix.SYS_WAIT4, uintptr(c.pid), 0, unix.WNOHANG, 0, 0)
		if e != 0 || pid != 0 {
			break
		}
		sleep(reapEach) // SIGCHLD is not polled here
	}
	c.pid = 0
}

// reap waits for those that have ended: the guard has no other children.
func (c *goProcess) reap() {
	for {
		pid, e := sys(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG|unix.WALL, 0, 0)
		if e != 0 || pid == 0 {
			return
		}
		if int32(pid) == c.pid {
			c.pid = 0
		}
	}
}

// startGo starts one, with a socket of its own.
func (p *process) startGo(c *goProcess) bool {
	var ends [2]int32
	if socketPair(&ends) != 0 {
		return false
	}
	p.page.ByGuard.Generation++
	c.sock = ends[0]
	c.end = ends[1]
	first := p.lasting.args & (argumentsMost - 1)
	second := (first + 1) & (argumentsMost - 1)
	if p.child.role == roleGuard {
		c.nameHelper(&p.lasting)
	}
	p.lasting.argv[first] = decimal(&c.digits[0], int(p.page.Memory))
	p.lasting.argv[second] = decimal(&c.digits[1], int(c.end))
	pid := p.spawnGo(c.end)
	closeFD(c.end)
	if pid < 0 {
		closeFD(c.sock)
		c.sock = -1
		return false
	}
	c.pid = int32(pid)
	return true
}

// nameHelper gives the helper the id of the server in the place of the guard's.
func (c *goProcess) nameHelper(l *lasting) {
	const prefix = helperPrefix
	for i := range len(prefix) {
		c.name[i] = prefix[i]
	}
	for i := len(guardPrefix); i < len(l.name); i++ {
		c.name[(len(prefix)+i-len(guardPrefix))&(nameRoom-1)] = l.name[i]
	}
	l.argv[0] = uintptr(unsafe.Pointer(&c.name))
}

// spawnGo starts it in the leaf of guards, which is that of the scope where there is no other. The
// guard may be elsewhere: a helper in the group of the members would freeze itself.
func (p *process) spawnGo(end int32) (pid int) {
	leaf := p.page.FD.Leaf
	if leaf < 0 && p.page.ByGuard.Payload >= 0 {
		// -1 where no manager has the group
		leaf, _ = openAt(p.page.ByGuard.Payload, scopeLeaf, unix.O_DIRECTORY)
	}
	pid = p.spawnIn(leaf, end)
	if pid < 0 && leaf >= 0 { // a member may have removed it, or have made it one that takes no process
		pid = p.spawnIn(-1, end)
	}
	if leaf != p.page.FD.Leaf {
		closeFD(leaf)
	}
	return pid
}

// newborn is the memory of such a process until its exec.
type newborn struct {
	child   child
	process uintptr // *process of the guard, in memory that both share: this one only reads it
	end     int32
}

// spawnIn starts it in a cgroup, or in the guard's (-1). The guard does not wait for its exec, which may
// last: on a file system that hangs, or for the watcher of an outer gateway.
func (p *process) spawnIn(leaf, end int32) (pid int) {
	addr, e := mapChild(unsafe.Sizeof(newborn{}), roleGo)
	if e != 0 {
		return -int(e)
	}
	b := *(**newborn)(unsafe.Pointer(&addr))
	b.process = uintptr(unsafe.Pointer(p))
	b.end = end
	b.child.cgroup = leaf
	b.child.clone.pidfd = 0 // it is signalled by its pid, and the guard may have no descriptor left
	b.child.forkHere(shareNothing, uint64(unix.SIGCHLD))
	pid = int(b.child.pid)
	b.child.unmap()
	return pid
}

// execute is the process until its exec. It is not to be taken for the guard: by those who find that by its
// name, and by the launcher, which sees the guard's death by the end of the socket.
func (b *newborn) execute() {
	p := *(**process)(unsafe.Pointer(&b.process))
	sys(unix.SYS_PRCTL, unix.PR_SET_NAME, p.lasting.argv[0], 0, 0, 0)
	if p.child.role == roleGuard { // a gateway's has closed it
		closeFD(p.launcherSock)
	}
	if b.child.joins {
		enter(b.child.cgroup)
	}
	p.executeGo(b.end)
}

func (p *process) executeGo(end int32) {
	for i := 0; i < p.keeps.shared; i++ {
		passOn(p.keeps.fds[i&(mostKept-1)])
	}
	passOn(p.page.ByGuard.Payload)
	passOn(end)
	if p.child.role == roleGate {
		passServers(p.page)
	}
	none := uint64(0)
	setMask(&none, nil)
	// The descriptor is of the file that the launcher runs, even if the file is deleted or replaced by now.
	argv := uintptr(unsafe.Pointer(&p.lasting.argv))
	executeProgram(p.page.FD.Program, argv, p.lasting.env)
	exit(125)
}

// passOn has the program that this process executes inherit the descriptor.
func passOn(fd int32) {
	if fd >= 0 {
		sys(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0, 0, 0)
	}
}
