// SPDX-License-Identifier: Apache-2.0

// Package leaks finds and stops leaked MCP servers: processes of configured servers that run outside any
// group after their client exited.
//
// A process is stopped only if the kernel, and a configuration of its own user, confirm all of this:
//
//	its                what a leak has                          otherwise it is
//	parent             init or a user's manager, who adopted    nothing: what started it lives
//	                   it
//	group              none, and none below it                  nothing: it is contained
//	descriptor 0       a pipe or socket whose other end no      nothing: its client can live
//	                   process has
//	descriptor 1       the same                                 nothing if it is held, else unsure
//	command            that of a server, word by word           unsure, or nothing if it listens
//	directory          that of the configuration, or the words  unsure
//	                   mean the same in every directory
//	listening sockets  none, and none of a process below it     unsure
//
// Each is about the process itself. A server below it, or above it, proves nothing: agents have servers below
// them. What is unsure is listed for a person, and never stopped. With a leak go the processes below it.
package leaks

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/parallel"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// LeastAge is the least age of a leak: a younger process may still be starting, or end by itself.
const LeastAge = 10 * time.Second

// Leak is a process that is a leak or may be one, with all processes below it.
type Leak struct {
	PID    int
	UID    int
	Argv   []string
	Dir    string // the working directory
	Parent int
	Age    time.Duration
	Below  []int  // its descendants
	Name   string // of the configured server
	File   string // that configures it
	Doubt  string // why it may be none: then it is not stopped
	pidfd  int
	start  uint64
}

// List has the leaks of a choice of users, the oldest first. The caller closes it.
type List struct {
	Found  []*Leak
	Unsure []*Leak // each has its doubt
	// Unread are the configurations that could not be read: leaks of their servers are not found.
	Unread []string
	// Searched are the directories whose configurations were read. It is empty if no process of any server
	// can be a leak.
	Searched []string
}

// Close closes all leaks.
func (l *List) Close() { closeAll(slices.Concat(l.Found, l.Unsure)) }

func closeAll(leaks []*Leak) {
	for _, l := range leaks {
		l.Close()
	}
}

// Find finds leaks that started longer ago than olderThan. With an error there are no leaks to close.
func Find(users group.Users, olderThan time.Duration) (List, error) {
	of := finder{users: users, olderThan: olderThan, search: clientconfig.NewSearch(), wantsUnknown: true}
	return of.find()
}

// finder says which leaks are looked for.
type finder struct {
	users        group.Users
	olderThan    time.Duration
	search       *clientconfig.Search
	wantsUnknown bool       // also those that no configuration names
	contained    *Contained // nil if it is not known yet
}

func (f finder) find() (List, error) {
	if err := f.users.CheckVisible(); err != nil {
		return List{}, err
	}
	abandoned, err := findAbandoned(f.users, f.olderThan)
	if err != nil || len(abandoned) == 0 {
		closeAll(abandoned)
		return List{}, err
	}
	var known map[int]Configurations
	var reading sync.WaitGroup // of other users by processes, which the list of servers need not wait for
	reading.Go(func() { known = readConfigurations(abandoned, f.search) })
	inside, err := f.inside()
	reading.Wait()
	if err != nil { // an abandoned process may be in a server that was not listed
		closeAll(abandoned)
		return List{}, err
	}
	var list List
	for _, c := range known {
		list.Unread = append(list.Unread, c.Unread...)
		list.Searched = append(list.Searched, c.Searched...)
	}
	slices.Sort(list.Searched)
	list.Searched = slices.Compact(list.Searched)
	sockets := listeners{}
	for _, l := range abandoned {
		isLeak := l.judge(known[l.UID], f.wantsUnknown, sockets) && !l.isInside(inside) && l.isSame()
		switch {
		case !isLeak:
			l.Close()
		case l.Doubt != "":
			list.Unsure = append(list.Unsure, l)
		default:
			list.Found = append(list.Found, l)
		}
	}
	return list, nil
}

// CountBeside returns the number of leaks of these users, as Find finds them at LeastAge, for a command that
// has all their servers.
func CountBeside(users group.Users, contained Contained) (int, error) {
	// A process that is contained since then may be as young as the list is old.
	age := max(LeastAge, time.Since(contained.listed))
	return finder{
		users: users, olderThan: age, search: clientconfig.NewSearch(), contained: &contained,
	}.count()
}

// CountBy is CountBeside for a command that reads configurations for other reasons, and does not have all
// servers.
func CountBy(users group.Users, search *clientconfig.Search) (int, error) {
	return finder{users: users, olderThan: LeastAge, search: search}.count()
}

func (f finder) count() (int, error) {
	leaks, err := f.find()
	if err != nil {
		return 0, err
	}
	defer leaks.Close()
	return leaks.count()
}

// count fails if nothing was found and configurations could not be read: nobody knows whether that is so. One
// malformed file of a user does not hide what was found of all others.
func (l *List) count() (int, error) {
	if len(l.Found) == 0 && len(l.Unread) > 0 {
		return 0, errors.New(l.Unread[0])
	}
	return len(l.Found), nil
}

// Contained are the processes of all servers of a choice of users, which are no leaks.
type Contained struct {
	pids   []int
	listed time.Time
}

// ContainedIn has the processes of servers that were listed at that time or later.
func ContainedIn(servers []*fleet.Listed, listed time.Time) Contained {
	return Contained{pids: grouped(servers), listed: listed}
}

// inside lists the processes that are no leaks because they are contained, and our own.
func (f finder) inside() ([]int, error) {
	if f.contained != nil {
		return f.contained.pids, nil
	}
	servers, err := fleet.List(f.users)
	defer selection.Close(servers)
	return grouped(servers), err
}

// grouped are the processes of the servers, and our own.
func grouped(servers []*fleet.Listed) []int {
	inside := []int{os.Getpid()}
	for _, s := range servers {
		pids, _ := s.Handle.Processes() // none, if it has ended
		inside = append(inside, pids...)
		inside = append(inside, s.Launcher, s.Guard)
	}
	return inside
}

// findAbandoned lists the processes that no client has, the oldest first. Each has to be closed.
func findAbandoned(users group.Users, olderThan time.Duration) (found []*Leak, err error) {
	var sinceBoot unix.Timespec                            // the start of a process is counted from there
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot) // cannot fail
	var pids []int
	err = proc.Each(func(pid int) bool {
		pids = append(pids, pid)
		return true
	})
	stats := make([]proc.Stat, len(pids))
	parallel.Each(len(pids), func(i int) { stats[i], _ = proc.ReadStat(pids[i]) }) // zero, if it has ended
	managers := adopters(stats)
	all := make([]*Leak, len(pids))
	parallel.Each(len(pids), func(i int) {
		if stats[i].State == 'Z' || !managers[stats[i].PPID] {
			return
		}
		l := open(stats[i], time.Duration(sinceBoot.Nano()))
		if l == nil {
			return
		}
		if users.Include(l.UID) && l.Age >= olderThan && l.isAbandoned() && l.isSame() {
			all[i] = l
		} else {
			l.Close()
		}
	})
	found = slices.DeleteFunc(all, func(l *Leak) bool { return l == nil })
	slices.SortFunc(found, func(a, b *Leak) int { return cmp.Compare(b.Age, a.Age) })
	return found, err
}

// open returns nil for a process that has ended, and for one with the rights of several users.
func open(st proc.Stat, sinceBoot time.Duration) *Leak {
	const ticks = 100 // of /proc/PID/stat in a second, on all processors
	pidfd, err := unix.PidfdOpen(st.PID, 0)
	if err != nil {
		return nil
	}
	status, err := proc.ReadStatus(st.PID)
	u := status.UID
	isOfOneUser := u[0] == u[1] && u[0] == u[2] && u[0] == u[3]
	if err != nil || !isOfOneUser {
		_ = unix.Close(pidfd) // it was only opened
		return nil
	}
	age := sinceBoot - time.Duration(st.StartTime)*(time.Second/ticks)
	return &Leak{PID: st.PID, UID: u[0], Parent: st.PPID, Age: age, pidfd: pidfd, start: st.StartTime}
}

// adopters are init and the managers of users. A manager adopts the processes that are left in its sessions
// and units.
func adopters(stats []proc.Stat) map[int]bool {
	adopt := map[int]bool{1: true}
	for _, st := range stats {
		if st.Comm != "systemd" { // which any program may call itself
			continue
		}
		where, err := proc.ReadCgroup(st.PID)
		if err == nil && strings.HasSuffix(where, "/init.scope") {
			adopt[st.PID] = true
		}
	}
	return adopt
}

// isAbandoned reports whether its stdin has lost its other end, and nobody reads its stdout: a client that
// has closed the stdin of its server waits for the last answer.
func (l *Leak) isAbandoned() bool {
	return client.OtherEndOf(l.PID, 0) == client.DeadEnd && client.OtherEndOf(l.PID, 1) != client.HeldEnd
}

// isSame reports whether the process is still the one that was found, and has not been adopted since.
func (l *Leak) isSame() bool {
	st, err := proc.ReadStat(l.PID)
	return err == nil && st.StartTime == l.start && st.PPID == l.Parent && !linux.Ended(l.pidfd)
}

// isInside reports whether one of its processes is in a group.
func (l *Leak) isInside(grouped []int) bool {
	return slices.ContainsFunc(l.processes(), func(pid int) bool { return slices.Contains(grouped, pid) })
}

// processes are the leak and those below it.
func (l *Leak) processes() []int { return append([]int{l.PID}, l.Below...) }

// tree has the processes below the leak, and not the leak.
func (l *Leak) tree() *freeze.Tree {
	return &freeze.Tree{Root: &freeze.Root{PID: l.PID, PIDFD: l.pidfd}, Owner: l.UID}
}

// Close closes the pidfd.
func (l *Leak) Close() { _ = unix.Close(l.pidfd) } // it was only read

// arguments reads a command line of at most 16 KiB.
func arguments(pid int) []string { return proc.Arguments(pid, 16<<10) }
