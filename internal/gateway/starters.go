// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// starters are the processes below which the servers of one watcher start: the gateway, and others.
//
// The servers of a gateway end with it. But some agents start processes that outlive them and have servers
// of their own: the daemon of Codex or of Claude Code, and each conversation in the background of
// that. To stop those servers with the agent would take them from conversations that go on. So below a
// gateway there can be other starters:
//
//   - a process in which `mcpscope gateway` was executed once more (notify.CallWatcher);
//   - a program that is called as the gateway is: a daemon, which leads a process session of its own; the
//     next gateway of one that has started itself anew; or the program that the gateway only wraps.
//
// The client of a server is the nearest starter above it. The watcher stays while one of them lives.
type starters struct {
	gateway     *starter
	leaders     *sessionLeaders
	memberships *memberships
	reporter    *reporter
	hub         *loop.Hub

	mu    sync.Mutex
	below map[int]*starter // by pid; the pidfd of one that has ended stays open, for servers may have it
	rest  bool             // the gateway and all others have ended: no other one is added
}

// clientOf returns the nearest starter above a process, at least the gateway. A daemon above it is followed
// from now on.
func (s *starters) clientOf(pid int) *starter {
	for range ancestorsMost {
		st, err := proc.ReadStat(pid)
		if err != nil || st.PPID <= 1 || st.PPID == s.gateway.PID {
			break
		}
		pid = st.PPID
		if known := s.findLiving(pid); known != nil {
			return known
		}
		isDaemon := s.isDaemon(pid)
		if !isDaemon && !s.isGatewayAgain(pid) {
			continue
		}
		if below := s.add(pid, isDaemon); below != nil {
			return below
		}
	}
	return s.gateway
}

// isGatewayAgain reports whether a process below the gateway has executed a program that is called as the
// gateway is, or was, and is no server. A copy of the gateway has executed nothing: a shell forks itself for
// each of its commands.
func (s *starters) isGatewayAgain(pid int) bool {
	called := name.Derive(arguments(pid))
	isCopy := s.leaders.isCopy(pid)
	if called != s.leaders.lastGatewayName() || isCopy || s.memberships.of(pid) == memberOfServer {
		return false
	}
	status, err := proc.ReadStatus(pid)
	return err == nil && status.Filtered
}

// isNextGateway reports whether a process is the next gateway of one that has ended: it has the process
// session of that, and no parent in it.
func (s *starters) isNextGateway(pid int) bool {
	sid, err := unix.Getsid(pid)
	if err != nil || sid != s.leaders.sid || !s.isGatewayAgain(pid) {
		return false
	}
	st, err := proc.ReadStat(pid)
	if err != nil {
		return false
	}
	parents, err := unix.Getsid(st.PPID)
	return err != nil || parents != sid
}

// isDaemon reports whether a process looks like a daemon of the gateway, or of another starter. Its process
// session is its own, or that of a parent which has ended.
func (s *starters) isDaemon(pid int) bool {
	sid, err := unix.Getsid(pid)
	if err != nil || sid == s.leaders.sid {
		return false
	}
	if sid != pid && !hasEnded(sid) {
		return false
	}
	status, err := proc.ReadStatus(pid)
	if err != nil || !status.Filtered {
		return false
	}
	return s.haveName(name.Derive(arguments(pid))) && s.memberships.of(pid) != memberOfServer
}

// hasEnded reports whether a process has ended, even if its parent has not waited for it yet.
func hasEnded(pid int) bool {
	st, err := proc.ReadStat(pid)
	return proc.Exited(pid) || err == nil && st.State == 'Z'
}

// add makes a process a starter, and follows it until its end. It returns nil for one that has ended, and if
// the starters rest.
func (s *starters) add(pid int, isDaemon bool) *starter {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	added, err := newStarter(pid, pidfd)
	if err != nil {
		closeAll(pidfd)
		return nil
	}
	added.isDaemon = isDaemon
	if known := s.enter(added); known != added {
		closeAll(pidfd)
		return known
	}
	go s.awaitEnd(added)
	s.report()
	if isDaemon {
		s.reporter.logDaemon(added)
	}
	return added
}

func (s *starters) awaitEnd(one *starter) {
	events := s.hub.Loop() // a thread for each would be one of the user's processes
	defer events.Close()
	if events.Add(one.pidfd, loop.TokenClient) == nil {
		events.Next(time.Time{})
	} else {
		linux.AwaitUntil(time.Time{}, one.pidfd, unix.POLLIN)
	}
	one.recordEnd()
	s.remove(one)
	s.report()
}

// restore follows the starters that the watcher before has recorded.
func (s *starters) restore() {
	dir, err := openGroupOf(os.Getpid())
	if err != nil {
		return
	}
	defer dir.Close()
	for _, recorded := range readNotices(dir, s.gateway.PID).Starters {
		s.addAgain(recorded.Process, recorded.IsDaemon)
	}
}

// addAgain adds a starter of the watcher before, and returns nil for one that has ended. Any process of the
// user may have written its record, but only processes below this gateway have its filter.
func (s *starters) addAgain(recorded protocol.Identity, isDaemon bool) *starter {
	status, err := proc.ReadStatus(recorded.PID)
	if err != nil || !status.Filtered || !group.Alive(recorded) {
		return nil
	}
	again := s.add(recorded.PID, isDaemon)
	if again == nil || again.Start != recorded.Start {
		return nil
	}
	return again
}

// report records which starters there are, for people and for the next watcher.
func (s *starters) report() {
	s.reporter.updateNotices(func(n *Notices) {
		n.Starters = nil
		for _, one := range s.list() {
			n.Starters = append(n.Starters, Starter{Process: one.Identity, IsDaemon: one.isDaemon})
		}
	})
}

// followDaemons looks for daemons that have started no server yet.
func (s *starters) followDaemons() {
	_ = proc.Each(func(pid int) bool { // no process is found without /proc
		if s.findLiving(pid) != nil {
			return true
		}
		isDaemon := s.isDaemon(pid) && s.leaders.include(pid)
		if isDaemon || s.isNextGateway(pid) {
			s.add(pid, isDaemon)
		}
		return true
	})
}

// awaitBelow returns when no starter but the gateway is left. From then on they rest.
func (s *starters) awaitBelow() {
	for s.followDaemons(); !s.restIfNone(); s.followDaemons() {
		for _, one := range s.list() {
			linux.AwaitUntil(time.Time{}, one.pidfd, unix.POLLIN)
			s.remove(one)
		}
	}
}

func (s *starters) restIfNone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = len(s.below) == 0
	return s.rest
}

// resting reports whether nothing becomes a server any more.
func (s *starters) resting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rest
}

// find returns the starter of a server that the watcher before had. That could not record its starters if it
// might not write to its control group.
func (s *starters) find(facts protocol.ClientFacts) *starter {
	if facts.PID == s.gateway.PID {
		return s.gateway
	}
	if known := s.findLiving(facts.PID); known != nil && known.Start == facts.Start {
		return known
	}
	was := protocol.Identity{PID: facts.PID, Start: facts.Start, Namespace: group.PIDNamespace()}
	if again := s.addAgain(was, s.isDaemon(was.PID)); again != nil {
		return again
	}
	return newEndedStarter(facts)
}

// findLiving returns the starter below the gateway that a process is, or nil.
func (s *starters) findLiving(pid int) *starter {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.below[pid]
	if known == nil || known.ended() {
		return nil
	}
	return known
}

// enter returns the starter that this process is: added, unless it was known. It returns nil if they rest.
func (s *starters) enter(added *starter) *starter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rest {
		return nil
	}
	if known := s.below[added.PID]; known != nil && !known.ended() {
		return known
	}
	s.below[added.PID] = added
	return added
}

func (s *starters) remove(one *starter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.below[one.PID] == one {
		delete(s.below, one.PID)
	}
}

// list has the starters but the gateway, by their pids.
func (s *starters) list() (listed []*starter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.below {
		listed = append(listed, one)
	}
	slices.SortFunc(listed, func(a, b *starter) int { return cmp.Compare(a.PID, b.PID) })
	return listed
}

// haveName reports whether the gateway, or another starter, has that name.
func (s *starters) haveName(called string) bool {
	gateway := s.leaders.lastGatewayName()
	if gateway == called || gateway == "" {
		return true
	}
	return slices.ContainsFunc(s.list(), func(one *starter) bool { return one.name() == called })
}

// haveStdin reports whether a starter's own stdin is that file.
func (s *starters) haveStdin(stdin file) bool {
	isTheirs := func(one *starter) bool { return one.stdin == stdin }
	return isTheirs(s.gateway) || slices.ContainsFunc(s.list(), isTheirs)
}
