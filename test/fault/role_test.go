// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// role is what a process is to a server.
type role string

const (
	stranger   role = "" // the server itself, or what comes before mcpscope
	launcher   role = "launcher"
	supervisor role = "supervisor"
	guard      role = "guard"
)

const forkMark = "'s fork"

// fork is a process that is not yet another program, or never will be.
func (r role) fork() role { return r.main() + forkMark }

// main is whose fork it is, or r itself.
func (r role) main() role { return role(strings.TrimSuffix(string(r), forkMark)) }

func (r role) isFork() bool { return strings.HasSuffix(string(r), forkMark) }

// process is one that has the filter, held by a pidfd.
type process struct {
	pid, pidfd int
	role       role
	event      uint64 // the descriptor by which the runtime wakes its own poller, 0 for none yet
	executed   bool   // it has asked for another program: it may be somebody else now
}

func (p *process) await(events int16) bool {
	return escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(p.pidfd), Events: events})
}

// ended waits until it has exited, reaped until somebody has waited for it (POLLHUP, Linux 6.9).
func (p *process) ended() bool  { return p.await(unix.POLLIN) }
func (p *process) reaped() bool { return p.await(0) }

func (p *process) alive() bool {
	return !escape.PollFor(0, unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN})
}

func (p *process) signal(sig unix.Signal) { _ = unix.PidfdSendSignal(p.pidfd, sig, nil, 0) } // gone is as good

// identify finds out who a process is, from what it executes and whose child it is. It waits
// in a system call, so it is who it was.
func (w *watcher) identify(p *process, parent role) role {
	if !isMcpscope(p.pid) {
		return stranger
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // without one it is nobody we know
	words := strings.Split(string(line), "\x00")
	switch {
	case len(words) > 1 && words[1] == "run" && p.pid == w.root:
		return launcher
	case len(words) > 1 && words[1] == "run":
		return launcher.fork()
	case !p.executed && parent == stranger:
		return supervisor.fork() // which has ended: it is the one that removes the group
	case !p.executed || p.role == supervisor.fork():
		return parent.fork() // its parent's memory, or a copy
	case p.role == launcher.fork() && w.tree:
		return guard
	}
	return supervisor
}

func isMcpscope(pid int) bool {
	var runs, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &runs) == nil && unix.Stat(mcpscope, &ours) == nil &&
		runs.Dev == ours.Dev && runs.Ino == ours.Ino
}
