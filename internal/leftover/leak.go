// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package leftover finds and stops leaked MCP servers: processes of configured servers that run outside any
// group after their client exited.
//
// A process is a leak only if the kernel confirms all of this at that moment:
//
//   - It was re-parented: its parent is init or a service manager.
//   - Its stdin is a pipe or socket whose other end is closed. So it cannot receive another request, and no
//     process of a running client is a leak.
//   - It, or a process below it (behind a package runner), has the command line of a configured server.
//   - Its stdout is not a pipe or socket that another process reads: a client that has closed the stdin of
//     its server waits for the last answer.
//
// The state of a pipe or socket shows whether another process holds the other end: some of these processes
// may be invisible to the caller. The package knows no configuration, and prints nothing.
package leftover

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
)

// Everyone as an uid means all users.
const Everyone = -1

// Known is a configured server.
type Known struct{ Name, File string }

// Search selects leaks.
type Search struct {
	UID       int // whose processes, or Everyone
	OlderThan time.Duration
	// Inside reports whether a process belongs to a server of mcpscope. It is called for possible leaks only.
	Inside func(pid int) bool
	// Known finds a command line among configured servers, or returns nil. It is called for possible leaks
	// only.
	Known func(argv []string) *Known
}

// Leak is a process, with all processes below it.
type Leak struct {
	PID    int
	UID    int
	Argv   []string
	Parent int
	Age    time.Duration
	Server Known
	Below  []int // its descendants
	pidfd  int
	start  uint64
}

// process contains facts about a process that every search reads.
type process struct {
	proc.Stat
	uid int
	age time.Duration
}

// Find lists leaks, the oldest first. Each has to be closed.
func (s Search) Find() ([]*Leak, error) {
	all, below, err := everyProcess()
	if err != nil {
		return nil, err
	}
	managers := map[int]bool{1: true}
	for pid, p := range all {
		managers[pid] = managers[pid] || isManager(p)
	}
	var found []*Leak
	for pid, p := range all {
		if s.UID != Everyone && p.uid != s.UID || !managers[p.PPID] || managers[pid] ||
			p.State == 'Z' || p.age < s.OlderThan {
			continue
		}
		if l := s.examine(p, below); l != nil {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b *Leak) int { return cmp.Compare(b.Age, a.Age) })
	return found, nil
}

// ticks of /proc/PID/stat in a second; the same on all architectures.
const ticks = 100

func everyProcess() (map[int]process, map[int][]int, error) {
	var sinceBoot unix.Timespec // the start of a process is counted from there
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot); err != nil {
		return nil, nil, fmt.Errorf("read the clock: %w", err)
	}
	all, below := map[int]process{}, map[int][]int{}
	err := proc.Each(func(pid int) bool {
		st, err := proc.ReadStat(pid)
		var owner unix.Stat_t
		if err != nil || unix.Stat("/proc/"+strconv.Itoa(pid), &owner) != nil {
			return true // it has ended
		}
		age := time.Duration(sinceBoot.Nano()) - time.Duration(st.StartTime)*(time.Second/ticks)
		all[pid] = process{st, int(owner.Uid), age}
		below[st.PPID] = append(below[st.PPID], pid)
		return true
	})
	return all, below, err
}

// isManager: systemd's user managers adopt the processes that are left in their sessions and units.
func isManager(p process) bool {
	if p.Comm != "systemd" {
		return false
	}
	where, err := proc.ReadCgroup(p.PID)
	return err == nil && strings.HasSuffix(where, "/init.scope")
}

// examine returns nil for a process that is no leak. A pidfd is open before anything is read.
func (s Search) examine(p process, below map[int][]int) *Leak {
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return nil // it has ended
	}
	l := &Leak{
		PID: p.PID, UID: p.uid, Parent: p.PPID, Age: p.age, Argv: arguments(p.PID),
		Below: descendants(p.PID, below), pidfd: pidfd, start: p.StartTime,
	}
	all := append([]int{l.PID}, l.Below...)
	if !l.isAbandoned() || slices.ContainsFunc(all, s.Inside) {
		l.Close()
		return nil
	}
	for _, pid := range all {
		if known := s.Known(arguments(pid)); known != nil && l.isSame() {
			l.Server = *known
			return l
		}
	}
	l.Close()
	return nil
}

// Close closes the pidfd.
func (l *Leak) Close() { _ = unix.Close(l.pidfd) } // it was only read

// isAbandoned: no other process can write to its stdin, or reads its stdout.
func (l *Leak) isAbandoned() bool {
	out := link(l.PID, 1)
	connected := strings.HasPrefix(out, "pipe:") || strings.HasPrefix(out, "socket:")
	isRead := connected && !client.Closed(l.PID, 1)
	return client.Closed(l.PID, 0) && !isRead
}

// isSame reports whether the process is still the examined one, and has not been adopted since.
func (l *Leak) isSame() bool {
	st, err := proc.ReadStat(l.PID)
	return err == nil && st.StartTime == l.start && st.PPID == l.Parent && !linux.Ended(l.pidfd)
}

func link(pid, fd int) string {
	text, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)) // "" for none
	return text
}

func descendants(pid int, below map[int][]int) []int {
	var all []int
	for todo := slices.Clone(below[pid]); len(todo) > 0; todo = todo[1:] {
		all = append(all, todo[0])
		todo = append(todo, below[todo[0]]...)
	}
	return all
}

// lineMost is how much of a command line is read.
const lineMost = 16 << 10

func arguments(pid int) []string { return proc.Arguments(pid, lineMost) }

// ErrChanged is of a process that is no leak any more.
var ErrChanged = errors.New("it has changed since it was examined")

// killWithin is how long a process may take to die.
const killWithin = 2 * time.Second

// Stop stops the leak and all processes below it: SIGTERM, the grace period, SIGKILL. The processes below
// come first, while the leak itself is stopped and starts none: after its end they would be children of the
// manager, like any other.
func (l *Leak) Stop(grace time.Duration) error {
	if linux.Ended(l.pidfd) {
		return nil
	}
	if !l.isSame() || !l.isAbandoned() {
		return ErrChanged
	}
	if err := l.stopBelow(unix.SIGTERM, grace); err != nil {
		return err
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		_ = unix.PidfdSendSignal(l.pidfd, sig, nil, 0) // it may have ended
	}
	if l.endsWithin(grace) {
		return nil
	}
	if err := l.stopBelow(0, 0); err != nil { // the processes that it has started on SIGTERM
		return err
	}
	_ = unix.PidfdSendSignal(l.pidfd, unix.SIGKILL, nil, 0) // as above
	if !l.endsWithin(killWithin) {
		return fmt.Errorf("process %d does not end", l.PID)
	}
	return nil
}

// stopBelow stops the leak by SIGSTOP, and the processes below it for good. ask == 0 means: kill at once.
func (l *Leak) stopBelow(ask unix.Signal, grace time.Duration) error {
	root, err := freeze.NewRoot(l.pidfd)
	if err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(l.pidfd, unix.SIGSTOP, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop process %d: %w", l.PID, err)
	}
	below := &freeze.Tree{Roots: []freeze.Root{root}, Owner: l.UID, OwnersOnly: true}
	left, err := freeze.Stop{Target: below, Ask: ask, Grace: grace}.Run()
	for _, s := range left {
		err = errors.Join(err, fmt.Errorf("a process is left: %v", s))
	}
	return err
}

func (l *Leak) endsWithin(d time.Duration) bool {
	exited := unix.PollFd{Fd: int32(l.pidfd), Events: unix.POLLIN}
	_, _ = linux.PollUntil(time.Now().Add(d), exited) // Ended decides
	return linux.Ended(l.pidfd)
}
