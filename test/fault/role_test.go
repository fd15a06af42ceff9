// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// role is a process's part in the life of a server.
type role string

const (
	stranger role = "" // the server itself, or a program before mcpscope
	launcher role = "launcher"
	guard    role = "guard"
	helper   role = "helper" // a later one
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
	executed   bool   // it has called execve: it may run another program now
}

// ended waits until it has exited.
func (p *process) ended() bool {
	return escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN})
}

// reaped waits until its parent has reaped it.
func (p *process) reaped() bool {
	return pace.Eventually(escape.Patience, func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", p.pidfd)) // it is ours
		return strings.Contains(string(text), "\nPid:\t-1\n")
	})
}

func (p *process) alive() bool {
	return !escape.PollFor(0, unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN})
}

func (p *process) signal(sig unix.Signal) { _ = unix.PidfdSendSignal(p.pidfd, sig, nil, 0) } // gone is as good

// identify finds the role of a process, from its program and its parent. The process waits
// in a system call, so its role does not change.
func (w *watcher) identify(p *process, parent role) role {
	if !isMcpscope(p.pid) {
		return stranger
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)) // without one it has no known role
	words := strings.Split(string(line), "\x00")
	switch {
	case p.pid == w.root:
		return launcher
	case len(words) > 1 && words[1] == "supervise":
		return helper
	case !calledGuard(p.pid):
		return launcher.fork()
	case w.guards[guard] != nil && w.guards[guard] != p && w.guards[guard].alive():
		return guard.fork() // a helper before its exec
	}
	return guard
}

// calledGuard: the guard executes nothing, and has its name from its second system call on.
func calledGuard(pid int) bool {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // as above
	return strings.HasPrefix(string(name), "guard-")
}

func isMcpscope(pid int) bool {
	var runs, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &runs) == nil && unix.Stat(mcpscope, &ours) == nil &&
		runs.Dev == ours.Dev && runs.Ino == ours.Ino
}

// process finds, or gets to know, the process of a thread that waits in a call.
func (w *watcher) process(tid uint32) (*process, error) {
	p := w.threads[tid]
	if p != nil && p.alive() {
		// The guard executes nothing. Such a process was the main process of a dead guard.
		if p.executed && p.role != launcher && p.role != helper || p.role == launcher.fork() && calledGuard(p.pid) {
			w.meet(p, p.role.main())
		}
		return p, nil
	}
	pid, parent, err := family(tid)
	if err != nil {
		return nil, err
	}
	p = w.byPID(pid)
	if p == nil {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return nil, os.NewSyscallError("pidfd_open", err)
		}
		p = &process{pid: pid, pidfd: fd}
		w.all = append(w.all, p)
		whose := stranger
		if q := w.byPID(parent); q != nil {
			whose = q.role.main()
		}
		w.meet(p, whose)
	}
	w.threads[tid] = p
	return p, nil
}

func (w *watcher) byPID(pid int) *process {
	i := slices.IndexFunc(w.all, func(p *process) bool { return p.pid == pid && p.alive() })
	if i < 0 {
		return nil
	}
	return w.all[i]
}

func (w *watcher) meet(p *process, parent role) {
	p.role = w.identify(p, parent)
	if p.role != stranger && !p.role.isFork() {
		w.guards[p.role] = p
		p.executed = false
	}
}

func (w *watcher) alive() []role {
	var all []role
	for r, p := range w.guards {
		if p.alive() {
			all = append(all, r)
		}
	}
	slices.Sort(all)
	return all
}

// family reads the process that a thread belongs to, and its parent.
func family(tid uint32) (pid, parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "Tgid: %d", &pid)
		if n, _ := fmt.Sscanf(line, "PPid: %d", &parent); n == 1 {
			return pid, parent, nil
		}
	}
	return 0, 0, fmt.Errorf("no parent in the status of %d", tid)
}
