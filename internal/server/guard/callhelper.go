// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// helperCall is the helper that a guard has started, or is about to. A gateway's guard has its watcher here.
type helperCall struct {
	sock    int32 // the guard's end of its socket, or -1 without a helper
	end     int32 // the helper's end, until it executes its program
	pid     int32
	deaths  int               // of helpers, one after the other
	retryAt int64             // no earlier after a failure, or 0
	tasks   page.Tasks        // that it knows of
	dueBy   int64             // when it is replaced, if it has not done them by then; or 0
	failed  page.Tasks        // that no helper could do
	askAt   int64             // when a helper looks for the holder of stdin again, or 0
	name    [24]byte          // first argument of a server's helper
	digits  [numbers][11]byte // last arguments
}

const (
	taskWithin = 5e9 // for a helper, from its start on or when it gets a task
	deathsMost = 3   // of helpers, one after the other
)

func (c *helperCall) isRunning() bool { return c.sock >= 0 }

// announce has the helper read the page, if one runs.
func (c *helperCall) announce() {
	if c.isRunning() {
		sendWord(c.sock, page.WordLook)
	}
}

// neededAt is when a helper is needed; 0 for never.
func (c *helperCall) neededAt(on *page.Page) int64 {
	if on.ByGuard.Tasks != 0 {
		return max(1, c.retryAt)
	}
	at := decide.Earlier(on.ByHelper.CallHelperAt, c.askAt)
	hasThawed := on.ByGuard.Thaw.IsNew && on.ByGuard.Stop.State.Phase <= decide.Grace
	if hasThawed { // a helper that was about to rest has not noticed, and has written a later time
		at = 1
	}
	if at == 0 {
		return 0
	}
	return max(at, c.retryAt)
}

// setTasks has a helper find who holds stdin after the death of the client, and end containers.
func (c *helperCall) setTasks(s *stop, events *guardEvents) {
	on := s.page
	tasks := on.ByGuard.Tasks & page.End
	if s.wantsContainers && s.hasContainers() {
		tasks |= page.EndContainers
	}
	if page.SeeksHolder(on) {
		tasks |= c.findHolder(on, events)
	} else {
		c.askAt = 0
	}
	on.ByGuard.Tasks = tasks &^ c.failed
}

// findHolder goes on as a helper has answered, and returns the task if one has to look. Another process that
// holds the client's end is the client now. No event says that an unknown one has closed it.
func (c *helperCall) findHolder(on *page.Page, events *guardEvents) page.Tasks {
	found := on.ByHelper.Holder
	on.ByHelper.Holder = page.NoAnswer
	if found == page.UnknownHolder {
		c.askAt = now() + page.HolderEach
	}
	if found == page.LivingHolder {
		fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(on.ByHelper.HolderPID), 0, 0, 0, 0)
		if e == 0 { // only polled: it may be another process's by now
			on.ByGuard.Happened[page.ClientDied] = 0
			events.polls[pollClient].Fd = int32(fd)
			return 0
		}
	}
	if now() < c.askAt {
		return 0
	}
	c.askAt = 0
	return page.FindHolder
}

// forget kills a helper that ends, and closes its socket.
func (c *helperCall) forget() {
	c.kill(forgottenWithin)
	closeFD(c.sock)
	c.sock = -1
	c.dueBy = 0
}

const (
	forgottenWithin = 20e6 // the guard has to watch the server
	finishedWithin  = 1e9  // nothing is left to watch
	reapEach        = 100e3
)

// kill kills the helper, and reaps it if it ends in that time: a member may trace it.
func (c *helperCall) kill(within int64) {
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

// reap waits for helpers that have ended: the guard has no other children.
func (c *helperCall) reap() {
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

// startHelper starts one, with a socket of its own.
func (p *process) startHelper(c *helperCall) bool {
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
	pid := p.spawnHelper(c.end)
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
func (c *helperCall) nameHelper(l *lasting) {
	const prefix = helperPrefix
	for i := range len(prefix) {
		c.name[i] = prefix[i]
	}
	for i := len(guardPrefix); i < len(l.name); i++ {
		c.name[(len(prefix)+i-len(guardPrefix))&15] = l.name[i]
	}
	l.argv[0] = uintptr(unsafe.Pointer(&c.name))
}

// spawnHelper starts a helper in the leaf of guards, which is that of the scope where there is no other. The
// guard may be elsewhere: a helper in the group of the members would freeze itself.
func (p *process) spawnHelper(end int32) (pid int) {
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

// spawnIn starts a helper in a cgroup, or in the guard's (-1). It borrows the guard's memory until its exec.
// The guard's signals are all blocked and have no handlers.
func (p *process) spawnIn(leaf, end int32) (pid int) {
	own := &p.child
	if own.joins {
		pid = vfork(unix.SYS_CLONE, vforkFlags|uintptr(unix.SIGCHLD), 0)
	} else {
		own.clone = cloneArgs{flags: vforkFlags, exitSignal: uint64(unix.SIGCHLD)}
		if leaf >= 0 {
			own.clone.flags |= unix.CLONE_INTO_CGROUP
			own.clone.cgroup = uint64(leaf)
		}
		pid = vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&own.clone)), unsafe.Sizeof(own.clone))
	}
	if pid == 0 {
		if own.joins {
			enter(leaf)
		}
		p.executeHelper(end)
	}
	return pid
}

// executeHelper is the helper's process until its exec.
func (p *process) executeHelper(end int32) {
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
