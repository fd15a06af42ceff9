// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package leaks finds processes that a client has left: what was started as an MCP server by somebody who
// is gone, and that speaks to nobody any more.
//
// A process is called a leak only if all of this is so, by what the kernel says at that moment:
//
//   - It was re-parented: its parent is the first process, or a service manager.
//   - Its stdin is a pipe or socket whose other end is closed. So nobody can ask it anything, ever, and no
//     process of a client that runs is one.
//   - Its command is that of a configured server, or that of one below it is and none of those is spoken to, and
//     its stdout is no pipe or socket that somebody reads; or its stdout is such a pipe or socket, too, it listens
//     at no address, and no process below it is spoken to: then it is no client itself, and no daemon.
//
// Whether another process holds an end is asked of the pipe or socket and not of processes, of which the caller
// may not see all. The package knows no configuration, and prints nothing.
package leaks

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// Everyone as an uid means all users.
const Everyone = -1

// Known is a configured server.
type Known struct{ Name, File string }

// Search is what is looked for.
type Search struct {
	UID       int // whose processes, or Everyone
	OlderThan time.Duration
	// Inside tells which processes are those of servers that mcpscope runs. It is called for what may be a leak alone.
	Inside func(pid int) bool
	// Contained is the same for FindEscaped, of the server with this id.
	Contained func(pid int, id string) bool
	// Known finds a command line among configured servers; nil if it is none's. It is called as Inside.
	Known func(argv []string) *Known
}

// Leak is a process, with all below it.
type Leak struct {
	PID    int
	UID    int
	Argv   []string
	Parent int
	Age    time.Duration
	Known  *Known
	Why    []string
	Below  []int // its descendants
	pidfd  int
	start  uint64
	stdin  string // which pipe or socket that is
}

// process is what is read of each.
type process struct {
	proc.Stat
	uid int
	age time.Duration
}

// Find lists leaks, the oldest first. Each has to be closed.
func (s Search) Find() ([]*Leak, error) {
	all, below, err := everybody()
	if err != nil {
		return nil, err
	}
	managers := map[int]bool{1: true}
	for pid, p := range all {
		managers[pid] = managers[pid] || isManager(p)
	}
	var found []*Leak
	for pid, p := range all {
		if pid == os.Getpid() || s.UID != Everyone && p.uid != s.UID || !managers[p.PPID] || managers[pid] || p.State == 'Z' && p.Threads <= 1 {
			continue
		}
		if p.age < s.OlderThan {
			continue
		}
		if l := s.look(p, below); l != nil {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b *Leak) int { return int(b.Age/time.Millisecond) - int(a.Age/time.Millisecond) })
	return found, nil
}

// ticks of /proc/PID/stat in a second; the same on all architectures.
const ticks = 100

func everybody() (map[int]process, map[int][]int, error) {
	var sinceBoot unix.Timespec // by which the start of a process is told
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot); err != nil {
		return nil, nil, fmt.Errorf("read the clock: %w", err)
	}
	all, below := map[int]process{}, map[int][]int{}
	err := proc.Each(func(pid int) bool {
		st, err := proc.ReadStat(pid)
		if err != nil {
			return true // it has ended
		}
		var owner unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(pid), &owner) != nil {
			return true // as above
		}
		all[pid] = process{st, int(owner.Uid), time.Duration(sinceBoot.Nano()) - time.Duration(st.StartTime)*(time.Second/ticks)}
		below[st.PPID] = append(below[st.PPID], pid)
		return true
	})
	return all, below, err
}

// isManager: systemd's user managers adopt what is left in their sessions and units.
func isManager(p process) bool {
	if p.Comm != "systemd" {
		return false
	}
	where, _, err := proc.ReadCgroup(p.PID)
	return err == nil && strings.HasSuffix(where, "/init.scope")
}

// look returns nil for what is no leak. A pidfd is open before anything is asked.
func (s Search) look(p process, below map[int][]int) *Leak {
	l := &Leak{PID: p.PID, UID: p.uid, Parent: p.PPID, Age: p.age, start: p.StartTime}
	var err error
	if l.pidfd, err = unix.PidfdOpen(p.PID, 0); err != nil {
		return nil // it has ended
	}
	l.Below, l.stdin = descendants(p.PID, below), link(p.PID, 0)
	l.Argv = arguments(p.PID)
	if len(l.Argv) == 0 || !linux.Closed(p.PID, 0) || s.Inside(p.PID) || slices.ContainsFunc(l.Below, s.Inside) {
		l.Close()
		return nil
	}
	l.Why = []string{fmt.Sprintf("its parent is gone, and %d has it", p.PPID), "the other end of its stdin is closed"}
	known := s.Known(l.Argv)
	client := known == nil && l.converses()                        // of configured servers, it may be
	for i := 0; known == nil && !client && i < len(l.Below); i++ { // behind a package runner
		known = s.Known(arguments(l.Below[i]))
	}
	l.Known = known
	switch {
	case known != nil && l.isRead():
		l.Close() // a client that has closed its stdin waits for the last answer
		return nil
	case known != nil:
		l.Why = append(l.Why, "it is the server "+known.Name+" of "+known.File)
	case !client && linux.Closed(p.PID, 1) && !l.listens():
		l.Why = append(l.Why, "so is that of its stdout")
	default:
		l.Close()
		return nil
	}
	if !l.is() {
		l.Close()
		return nil
	}
	return l
}

// Close gives back what it has open.
func (l *Leak) Close() { _ = unix.Close(l.pidfd) }

// is tells whether the process is still the one that was looked at, and has not been adopted since.
func (l *Leak) is() bool {
	st, err := proc.ReadStat(l.PID)
	return err == nil && st.StartTime == l.start && st.PPID == l.Parent && !linux.Ended(l.pidfd)
}

// converses: something below it has an stdin of its own that somebody can write to, so it is a client.
func (l *Leak) converses() bool {
	own := link(l.PID, 0)
	return slices.ContainsFunc(l.Below, func(pid int) bool {
		its := link(pid, 0)
		return its != own && conveyed(its) && !linux.Closed(pid, 0)
	})
}

// isRead: its stdout is a pipe or socket whose other end somebody has.
func (l *Leak) isRead() bool { return conveyed(link(l.PID, 1)) && !linux.Closed(l.PID, 1) }

// conveyed tells by its link whether a descriptor is a pipe or socket.
func conveyed(link string) bool {
	return strings.HasPrefix(link, "pipe:") || strings.HasPrefix(link, "socket:")
}

// listens: somebody can speak to it by another way.
func (l *Leak) listens() bool {
	for _, pid := range append([]int{l.PID}, l.Below...) {
		listening := sockets(pid)
		names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // none, if it has ended
		for _, n := range names {
			number, _ := strconv.Atoi(n.Name())
			if listening[strings.TrimSuffix(strings.TrimPrefix(link(pid, number), "socket:["), "]")] {
				return true
			}
		}
	}
	return false
}

// sockets are the inode numbers of those that listen in a process's network namespace.
func sockets(pid int) map[string]bool {
	all := map[string]bool{}
	for file, is := range map[string]func(fields []string) (inode string, ok bool){
		"tcp": listensTCP, "tcp6": listensTCP, "udp": listensUDP, "udp6": listensUDP, "unix": listensUNIX,
	} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if inode, ok := is(strings.Fields(line)); ok {
				all[inode] = true
			}
		}
	}
	return all
}

// listensTCP reads a line of /proc/net/tcp: 0A is TCP_LISTEN.
func listensTCP(f []string) (string, bool) {
	if len(f) < 10 {
		return "", false
	}
	return f[9], f[3] == "0A"
}

// listensUDP reads a line of /proc/net/udp: 07 is TCP_CLOSE, of a socket that is bound and not connected.
func listensUDP(f []string) (string, bool) {
	if len(f) < 10 {
		return "", false
	}
	return f[9], f[3] == "07"
}

// listensUNIX reads a line of /proc/net/unix. The flags of one that accepts connections have __SO_ACCEPTCON; one for
// datagrams (type 2) has a name, which is the eighth field.
func listensUNIX(f []string) (string, bool) {
	if len(f) < 7 {
		return "", false
	}
	flags, err := strconv.ParseUint(f[3], 16, 64)
	return f[6], err == nil && flags&0x10000 != 0 || f[4] == "0002" && len(f) > 7
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
