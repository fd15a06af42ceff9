// SPDX-License-Identifier: Apache-2.0

// Package leaks finds and stops leaked MCP servers: processes of configured servers that run outside any
// group after their client exited.
//
// A process is a leak only if the kernel confirms all of this at that moment:
//
//   - It was re-parented: its parent is init or a user's manager.
//   - Its stdin is a pipe or socket whose other end is closed. So it cannot receive another request, and no
//     process of a running client is a leak.
//   - It, or a process below it (behind a package runner), has the command line of a configured server.
//   - Its stdout is not a pipe or socket that another process reads: a client that has closed the stdin of
//     its server waits for the last answer.
//
// The state of a pipe or socket shows whether another process holds the other end: some of these processes
// may be invisible to the caller.
package leaks

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
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// LeastAge is the least age of a leak: a younger process may still be starting, or end by itself.
const LeastAge = 10 * time.Second

// Leak is a process, with all processes below it.
type Leak struct {
	PID    int
	UID    int
	Argv   []string
	Parent int
	Age    time.Duration
	Below  []int  // its descendants
	Name   string // of the configured server
	File   string // that configures it
	pidfd  int
	start  uint64
}

// List has the leaks of a choice of users, the oldest first. The caller closes them.
type List struct {
	Found []*Leak
	// Unread are the configurations that could not be read: leaks of their servers are not found.
	Unread []error
	// Searched are the directories whose configurations were read. It is empty if no process of any server
	// can be a leak.
	Searched []string
}

// Close closes all leaks.
func (l *List) Close() {
	for _, leak := range l.Found {
		leak.Close()
	}
}

// Find finds leaks that started longer ago than olderThan. With an error there are no leaks to close,
// but Unread may have configurations.
func Find(users group.Users, olderThan time.Duration) (List, error) {
	if err := users.CheckVisible(); err != nil {
		return List{}, err
	}
	candidates, err := abandoned(users, olderThan)
	if err != nil || len(candidates) == 0 {
		(&List{Found: candidates}).Close()
		return List{}, err
	}
	// From any directory: a person who looks for leaks is seldom in the project that has left them.
	known, err := clientconfig.InAllProjects()
	rules, unread := configured(known, err)
	unread = append(unread, known.Lists...)
	servers, err := fleet.List(users)
	defer selection.Close(servers)
	if err != nil { // a candidate may be in a server that was not listed
		(&List{Found: candidates}).Close()
		return List{Unread: unread}, err
	}
	inside := grouped(servers)
	leaks := List{Unread: unread, Searched: known.Searched}
	for _, l := range candidates {
		if l.isInside(inside) || !l.identify(rules) {
			l.Close()
			continue
		}
		leaks.Found = append(leaks.Found, l)
	}
	return leaks, nil
}

// grouped are the processes of the servers, and our own.
func grouped(servers []*fleet.Listed) []int {
	inside := []int{os.Getpid()}
	for _, s := range servers {
		pids, _ := s.Processes() // none, if it has ended
		inside = append(inside, pids...)
		inside = append(inside, s.Launcher, s.Guard)
	}
	return inside
}

// configured takes the servers from a search of configurations.
func configured(found clientconfig.Found, err error) (rules gw.Rules, unread []error) {
	if err != nil {
		return rules, []error{fmt.Errorf("find configurations: %w", err)}
	}
	unread = found.Backups
	for _, c := range found.Files {
		if c.Err != nil {
			unread = append(unread, fmt.Errorf("read %s: %w", c.Where(), c.Err))
			continue
		}
		for _, s := range c.Servers {
			argv := s.Own()
			if len(argv) == 0 {
				continue
			}
			server := gw.Configured{Name: s.Label(), File: c.Where(), Argv: argv}
			rules.Configured = append(rules.Configured, server)
		}
	}
	return rules, unread
}

// abandoned lists processes whose client has exited, the oldest first. Each has to be closed.
func abandoned(users group.Users, olderThan time.Duration) (found []*Leak, err error) {
	var sinceBoot unix.Timespec                            // the start of a process is counted from there
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot) // cannot fail
	err = proc.Each(func(pid int) bool {
		l := candidate(pid, time.Duration(sinceBoot.Nano()))
		if l == nil {
			return true
		}
		isOfUser := users.Include(l.UID)
		if isOfUser && l.Age >= olderThan && adopts(l.Parent) && l.open() {
			found = append(found, l)
		}
		return true
	})
	slices.SortFunc(found, func(a, b *Leak) int { return cmp.Compare(b.Age, a.Age) })
	return found, err
}

// candidate returns nil for a process that has ended.
func candidate(pid int, sinceBoot time.Duration) *Leak {
	const ticks = 100 // of /proc/PID/stat in a second, on all processors
	st, err := proc.ReadStat(pid)
	if err != nil || st.State == 'Z' {
		return nil
	}
	var owner unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid), &owner); err != nil {
		return nil
	}
	return &Leak{
		PID:    pid,
		UID:    int(owner.Uid),
		Parent: st.PPID,
		Age:    sinceBoot - time.Duration(st.StartTime)*(time.Second/ticks),
		start:  st.StartTime,
	}
}

// adopts reports whether a parent is init or a user's manager. The manager adopts the processes that are left
// in its sessions and units.
func adopts(parent int) bool {
	if parent == 1 {
		return true
	}
	comm, _ := proc.Comm(parent) // "" if it has ended
	if comm != "systemd" {
		return false
	}
	where, err := proc.ReadCgroup(parent)
	return err == nil && strings.HasSuffix(where, "/init.scope")
}

// open returns false for a process that is not abandoned. A pidfd is open before anything is read.
func (l *Leak) open() bool {
	pidfd, err := unix.PidfdOpen(l.PID, 0)
	if err != nil {
		return false // it has ended
	}
	l.pidfd = pidfd
	if !l.isSame() || !l.isAbandoned() {
		l.Close()
		return false
	}
	l.Argv = arguments(l.PID)
	l.Below, _ = l.tree().Members() // as far as they can be read
	return true
}

// isInside reports whether one of its processes is in a group.
func (l *Leak) isInside(grouped []int) bool {
	return slices.ContainsFunc(l.processes(), func(pid int) bool { return slices.Contains(grouped, pid) })
}

// identify finds the configured server that the leak is, or that is below it.
func (l *Leak) identify(rules gw.Rules) bool {
	for _, pid := range l.processes() {
		argv := arguments(pid)
		found := rules.Server(argv)
		if found != nil && l.isSame() {
			l.Name = cmp.Or(found.Name, name.Derive(argv))
			l.File = found.File
			return true
		}
	}
	return false
}

// processes are the leak and those below it.
func (l *Leak) processes() []int { return append([]int{l.PID}, l.Below...) }

// tree has the processes below the leak, and not the leak.
func (l *Leak) tree() *freeze.Tree {
	return &freeze.Tree{Root: &freeze.Root{PID: l.PID, PIDFD: l.pidfd}, Owner: l.UID}
}

// Close closes the pidfd.
func (l *Leak) Close() { _ = unix.Close(l.pidfd) } // it was only read

// Count returns the number of leaks of these users, as Find finds them at LeastAge.
func Count(users group.Users) (int, error) {
	leaks, err := Find(users, LeastAge)
	if err != nil {
		return 0, err
	}
	defer leaks.Close()
	return len(leaks.Found), nil
}

// isAbandoned reports whether no other process can write to its stdin, and none reads its stdout.
func (l *Leak) isAbandoned() bool {
	out, _ := os.Readlink(proc.DescriptorPath(l.PID, 1)) // "" for none
	connected := strings.HasPrefix(out, "pipe:") || strings.HasPrefix(out, "socket:")
	isRead := connected && !client.Closed(l.PID, 1)
	return client.Closed(l.PID, 0) && !isRead
}

// isSame reports whether the process is still the one that was found, and has not been adopted since.
func (l *Leak) isSame() bool {
	st, err := proc.ReadStat(l.PID)
	return err == nil && st.StartTime == l.start && st.PPID == l.Parent && !linux.Ended(l.pidfd)
}

// arguments reads a command line of at most 16 KiB.
func arguments(pid int) []string { return proc.Arguments(pid, 16<<10) }

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
		return errors.New("it has changed since it was examined")
	}
	if err := l.stopBelow(unix.SIGTERM, grace); err != nil {
		l.send(unix.SIGCONT)
		return err
	}
	l.send(unix.SIGTERM)
	l.send(unix.SIGCONT)
	if l.endsWithin(grace) {
		return nil
	}
	err := l.stopBelow(0, 0) // the processes that it has started on SIGTERM
	l.send(unix.SIGKILL)
	if !l.endsWithin(killWithin) {
		return errors.Join(err, fmt.Errorf("process %d does not end", l.PID))
	}
	return err
}

func (l *Leak) send(sig unix.Signal) { _ = unix.PidfdSendSignal(l.pidfd, sig, nil, 0) } // or it has ended

// stopBelow stops the leak by SIGSTOP, and the processes below it for good. ask == 0 means: kill at once.
func (l *Leak) stopBelow(ask unix.Signal, grace time.Duration) error {
	l.send(unix.SIGSTOP)
	left, err := freeze.Stop{Target: l.tree(), Request: ask, Grace: grace}.Run()
	for _, s := range left {
		err = errors.Join(err, fmt.Errorf("left: %s", s.Text))
	}
	return err
}

func (l *Leak) endsWithin(d time.Duration) bool { return linux.AwaitWithin(l.pidfd, unix.POLLIN, d) }
