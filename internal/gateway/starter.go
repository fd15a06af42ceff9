// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// The servers of a gateway end with it. But some agents start processes that outlive them and have servers
// of their own: the daemon of Codex or of Claude Code, and each background session of that. To stop those
// servers with the agent would take them from sessions that live on. So below a gateway there can be other
// starters:
//
//   - a process in which `mcpscope gateway` was executed once more, which calls the watcher (notify.Call);
//   - a daemon: it leads a session of its own, and is called as the gateway is.
//
// The client of a server is the nearest starter above it. The watcher stays while one of them lives.

// starter is a process that starts servers, and so is their client.
type starter struct {
	protocol.Identity // Start is 0 for a gateway that had ended before this watcher began
	pidfd             int
	given             string // its name, if that was known when it began; see name
	stdin             file
	service           *cgroup.Group // in which it was when this watcher began, or nil
	isDaemon          bool
	endedAt           atomic.Int64 // in ns since the boot; 0 until then
	ends              ends
}

// newStarter is for a process that lives.
func newStarter(pid, pidfd int) (*starter, error) {
	self, err := group.Identify(pid)
	if err == nil && linux.Ended(pidfd) { // its pid may be another's by now
		err = unix.ESRCH
	}
	return &starter{Identity: self, pidfd: pidfd, stdin: fileAt(pid, 0)}, err
}

// name may change: a process can execute another program.
func (s *starter) name() string { return nameOf(s.PID, s.given) }

func (s *starter) text() string { return fmt.Sprintf("%s[%d]", s.name(), s.PID) }

func (s *starter) ended() bool { return linux.Ended(s.pidfd) }

// exits reports whether it has ended or is about to: the kernel closes the descriptors of a process before
// its pidfd shows the end.
func (s *starter) exits() bool {
	st, err := proc.ReadStat(s.PID)
	return s.ended() || err == nil && st.Exiting
}

// starters are those of one watcher.
type starters struct {
	gateway *starter
	session int // of the gateway
	mu      sync.Mutex
	called  string           // the gateway's name when it was last seen, "" if it had ended
	image   []byte           // of the gateway at that time
	leaders map[int]bool     // pids of those that executed a program below it, in a session of their own
	others  map[int]*starter // by pid; the pidfd of one that has ended stays open, for servers may have it
}

// above returns the nearest starter above a process, at least the gateway.
func (w *watcher) above(pid int) *starter {
	session, err := unix.Getsid(pid)
	if err != nil || session == w.starters.session && !w.starters.any() {
		return w.starters.gateway // no process can enter the session again that it has left
	}
	for range ancestorsMost {
		st, err := proc.ReadStat(pid)
		if err != nil || st.PPID <= 1 || st.PPID == w.starters.gateway.PID {
			break
		}
		pid = st.PPID
		if found := w.starters.living(pid); found != nil {
			return found
		}
		if w.isDaemon(pid) {
			if found := w.addStarter(pid, true); found != nil {
				return found
			}
		}
	}
	return w.starters.gateway
}

// isDaemon reports whether a process looks like a daemon of the gateway, or of another starter. Its session
// is its own, or that of a parent which has ended.
func (w *watcher) isDaemon(pid int) bool {
	session, err := unix.Getsid(pid)
	if err != nil || session == w.starters.session || session != pid && !hasEnded(session) {
		return false
	}
	status, err := proc.ReadStatus(pid)
	isCalled := err == nil && status.Filtered && w.starters.isCalled(name.Derive(arguments(pid)))
	return isCalled && w.groupOf(pid) != ofServer
}

// hasEnded reports whether a process has ended, even if its parent has not waited for it yet.
func hasEnded(pid int) bool {
	st, err := proc.ReadStat(pid)
	return proc.Exited(pid) || err == nil && st.State == 'Z'
}

// addStarter makes a process a starter. It returns nil for one that has ended.
func (w *watcher) addStarter(pid int, isDaemon bool) *starter {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	s, err := newStarter(pid, pidfd)
	if err != nil {
		closeAll(pidfd)
		return nil
	}
	s.isDaemon = isDaemon
	if known := w.starters.enter(s); known != s {
		closeAll(pidfd)
		return known
	}
	go w.awaitEnd(s)
	w.sayStarters()
	if isDaemon {
		w.logDaemon(s)
	}
	return s
}

func (w *watcher) awaitEnd(s *starter) {
	events := w.hub.Loop() // a thread for each would be one of the user's processes
	defer events.Close()
	if events.Add(s.pidfd, loop.TokenClient) == nil {
		events.Next(time.Time{})
	} else {
		linux.AwaitUntil(time.Time{}, s.pidfd, unix.POLLIN)
	}
	s.endedAt.Store(sinceBoot())
	w.starters.forget(s)
	w.sayStarters()
}

// followCaller answers the call of a process that is about to become a gateway below the watched one. That
// can be the gateway itself: `mcpscope gateway -- mcpscope gateway -- claude`.
func (w *watcher) followCaller(r *notify.Request) {
	status, err := proc.ReadStatus(int(r.TID)) // a thread may call
	if err == nil && w.listener.Valid(r) && status.Tgid != w.starters.gateway.PID {
		w.addStarter(status.Tgid, false)
	}
	w.listener.Answer(r)
}

// saw records the leader of a session that executes a program. The filter of a process does not show which
// gateway it is from, but only the watcher of its own gateway receives its calls.
func (all *starters) saw(pid int) {
	session, err := unix.Getsid(pid)
	if err != nil || session != pid || session == all.session {
		return
	}
	called := nameOf(all.gateway.PID, "")
	image := imageOf(all.gateway.PID)
	all.mu.Lock()
	defer all.mu.Unlock()
	if called != "" {
		all.called = called
		all.image = image
	}
	for known := range all.leaders {
		if len(all.leaders) >= leadersMost && proc.Exited(known) {
			delete(all.leaders, known)
		}
	}
	if len(all.leaders) < leadersMost {
		all.leaders[pid] = true
	}
}

// leadersMost is more than a gateway has daemons and servers.
const leadersMost = 4096

// isFrom reports whether a process that may be a daemon is from this gateway: it was seen, or is a copy of
// the gateway that has executed nothing yet. Another gateway can have the same command line.
func (all *starters) isFrom(pid int) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.leaders[pid] || len(all.image) > 0 && bytes.Equal(imageOf(pid), all.image)
}

// imageOf is the same for a process and its copies until one executes a program: the addresses in the
// auxiliary vector are random. It is empty if it can't be read.
func imageOf(pid int) []byte {
	vector, _ := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid)) // as it says
	return vector
}

// followDaemons looks for daemons that have started no server yet.
func (w *watcher) followDaemons() {
	_ = proc.Each(func(pid int) bool { // none, without /proc
		if w.starters.living(pid) == nil && w.isDaemon(pid) && w.starters.isFrom(pid) {
			w.addStarter(pid, true)
		}
		return true
	})
}

// awaitOthers returns when no starter but the gateway is left.
func (w *watcher) awaitOthers() {
	for {
		w.followDaemons()
		one := w.starters.one()
		if one == nil {
			return
		}
		linux.AwaitUntil(time.Time{}, one.pidfd, unix.POLLIN)
		w.starters.forget(one)
	}
}

// client finds the starter of a server that the watcher before had.
func (w *watcher) client(facts protocol.ClientFacts) *starter {
	gateway := w.starters.gateway
	if facts.PID == gateway.PID {
		return gateway
	}
	if found := w.starters.living(facts.PID); found != nil && found.Start == facts.Start {
		return found
	}
	gone := &starter{given: facts.Name, pidfd: -1}
	gone.PID = facts.PID
	gone.pidfd, _ = unix.Eventfd(1, unix.EFD_CLOEXEC) // as the pidfd of an ended process, it is readable
	return gone
}

func (all *starters) any() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.others) > 0
}

// one returns any that lives, or nil.
func (all *starters) one() *starter {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.others {
		return s
	}
	return nil
}

// living returns the starter that a process is, or nil.
func (all *starters) living(pid int) *starter {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.others[pid]
	if s == nil || s.ended() {
		return nil
	}
	return s
}

// enter returns the starter that this process is: s, unless it was known.
func (all *starters) enter(s *starter) *starter {
	all.mu.Lock()
	defer all.mu.Unlock()
	if known := all.others[s.PID]; known != nil && !known.ended() {
		return known
	}
	all.others[s.PID] = s
	return s
}

func (all *starters) forget(s *starter) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.others[s.PID] == s {
		delete(all.others, s.PID)
	}
}

// list has the starters but the gateway, by their pids.
func (all *starters) list() (listed []*starter) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.others {
		listed = append(listed, s)
	}
	slices.SortFunc(listed, func(a, b *starter) int { return cmp.Compare(a.PID, b.PID) })
	return listed
}

// isCalled reports whether the gateway, or another starter, has that name.
func (all *starters) isCalled(called string) bool {
	all.mu.Lock()
	own := all.called
	all.mu.Unlock()
	if own == called || own == "" {
		return true
	}
	return slices.ContainsFunc(all.list(), func(s *starter) bool { return s.name() == called })
}

// hasStdin reports whether a starter's own stdin is that file.
func (all *starters) hasStdin(stdin file) bool {
	isTheirs := func(s *starter) bool { return s.stdin == stdin }
	return isTheirs(all.gateway) || slices.ContainsFunc(all.list(), isTheirs)
}

func (w *watcher) logDaemon(s *starter) {
	gateway := w.starters.gateway
	text := fmt.Sprintf("%s, a daemon of %s, is watched as well: its servers are contained, and end with it",
		s.text(), gateway.text())
	_ = systemd.SendJournal(systemd.Info, []systemd.JournalField{ // there may be no journal
		{Name: "MESSAGE", Value: text},
		{Name: "MESSAGE_ID", Value: protocol.MessageIDs()[protocol.EventDaemon]},
		{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"},
		protocol.Field("event", string(protocol.EventDaemon)), protocol.Field("name", s.name()),
		protocol.Field("client", gateway.name()), protocol.Field("client_pid", strconv.Itoa(gateway.PID)),
	}...)
}
