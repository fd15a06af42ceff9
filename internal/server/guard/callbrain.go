// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// brainCall is the brain that a guard has started, or is about to. A gateway's guard has its watcher here.
type brainCall struct {
	sock      int32 // the guard's end of its socket, or -1 without a brain
	end       int32 // the brain's end, until it executes its program
	pid       int32
	deaths    int               // of brains, one after the other
	callAt    int64             // when a brain is started, or 0
	retryAt   int64             // no earlier after a failure that the server outlives
	late      watchdog          // for one that does not react
	postponed int64             // for how long at the last time: see postpone
	digits    [numbers][11]byte // arguments
}

// watchdog continues a brain that has changed nothing by BrainReactsBy, as a member may have stopped it, and
// gives it another time: it may have had no processor.
type watchdog struct {
	due    int64 // BrainReactsBy that has passed, or 0
	killAt int64 // when the brain is replaced that was continued then
}

// continuedFor is that other time. startWithin is the first time of a brain.
const (
	continuedFor = 1e9
	startWithin  = 5e9
	deathsMost   = 3 // of brains, one after the other
)

// deadline is when the watchdog has something to do; 0 for never.
func (w *watchdog) deadline(reactsBy int64) int64 {
	wasContinued := reactsBy == w.due
	if wasContinued {
		return w.killAt
	}
	return reactsBy
}

func (c *brainCall) isRunning() bool { return c.sock >= 0 }

// callBy has a brain started by that time.
func (c *brainCall) callBy(at int64) {
	if c.callAt == 0 || at < c.callAt {
		c.callAt = at
	}
}

// tryAgain has a brain start after that time, and none before.
func (c *brainCall) tryAgain(on *page.Page, after int64) {
	c.retryAt = now() + after
	on.ByBrain.CallBrainAt = c.retryAt
}

func (c *brainCall) isDue(at int64) bool { return c.callAt != 0 && at >= c.callAt }

// deadline is when a brain is started, or is late; 0 for never.
func (c *brainCall) deadline(on *page.Page) int64 {
	limit := on.ByBrain.CallBrainAt
	if c.isRunning() {
		limit = c.late.deadline(on.ByBrain.BrainReactsBy)
	}
	if c.callAt != 0 && (limit == 0 || c.callAt < limit) {
		limit = c.callAt
	}
	return limit
}

// announce has the brain read the page, if one runs. A member may have stopped that.
func (c *brainCall) announce() {
	if !c.isRunning() {
		return
	}
	if c.pid > 0 {
		signalChild(c.pid, unix.SIGCONT)
	}
	sendWord(c.sock, page.WordLook)
}

// isUnresponsive reports whether the brain has changed nothing for too long. At first it continues the brain.
func (c *brainCall) isUnresponsive(reactsBy, at int64) bool {
	switch {
	case reactsBy == 0 || at < reactsBy:
		return false
	case reactsBy != c.late.due:
		c.late.due = reactsBy
		c.late.killAt = at + continuedFor
		c.announce()
		return false
	}
	return at >= c.late.killAt
}

// forget kills a brain that ends, and closes its socket.
func (c *brainCall) forget() {
	c.kill(forgottenWithin)
	closeFD(c.sock)
	c.sock = -1
}

const (
	forgottenWithin = 20e6 // the guard has to watch the server
	finishedWithin  = 1e9  // nothing is left to watch
	reapEach        = 100e3
)

// kill kills the brain, and reaps it if it ends in that time: a member may trace it.
func (c *brainCall) kill(within int64) {
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

// reap waits for brains that have ended: the guard has no other children.
func (c *brainCall) reap() {
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

// startBrain starts one, with a socket of its own.
func (p *process) startBrain(c *brainCall) bool {
	var ends [2]int32
	if socketPair(&ends) != 0 {
		return false
	}
	p.page.ByGuard.Generation++
	c.sock = ends[0]
	c.end = ends[1]
	first := p.lasting.args & (argumentsMost - 1)
	second := (first + 1) & (argumentsMost - 1)
	p.lasting.argv[first] = decimal(&c.digits[0], int(p.page.Memory))
	p.lasting.argv[second] = decimal(&c.digits[1], int(c.end))
	p.page.ByBrain.BrainReactsBy = now() + startWithin
	c.late = watchdog{}
	pid := p.spawnBrain(c.end)
	closeFD(c.end)
	if pid < 0 {
		closeFD(c.sock)
		c.sock = -1
		return false
	}
	c.pid = int32(pid)
	return true
}

// spawnBrain starts a brain in the leaf of guards, which is that of the scope where there is no other. The
// guard may be elsewhere: a brain in the group of the members would freeze itself.
func (p *process) spawnBrain(end int32) (pid int) {
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

// spawnIn starts a brain in a cgroup, or in the guard's (-1). It borrows the guard's memory until its exec.
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
		p.executeBrain(end)
	}
	return pid
}

// executeBrain is the brain's process until its exec.
func (p *process) executeBrain(end int32) {
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

// neededBy is when a brain is needed for the events on the page. Most servers end by themselves soon after a
// hang-up of stdin, or a first signal. Then no brain is needed.
func neededBy(on *page.Page) int64 {
	own := &on.ByLauncher
	first := int64(math.MaxInt64)
	if own.SignalsGot != on.ByBrain.SignalsRead {
		first = now()
		if own.SignalsGot == 1 {
			first = own.Signals[0].At + reactWithin
		}
	}
	if own.EndLeft != page.NotLeft && on.ByBrain.Handled&page.HandledEnd == 0 {
		first = now()
	}
	for event := range page.Events {
		at := on.ByGuard.Happened[event]
		if at == 0 || on.ByBrain.Handled&(1<<event) != 0 {
			continue
		}
		// The launcher sees the end of the main process, too, and may need no brain.
		isQuiet := event == page.StdinClosed || event == page.StdoutClosed || event == page.MainExited
		if isQuiet {
			at += quietAfterHangUp
		}
		first = min(first, at)
	}
	return first
}
