// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// servers are the servers that a watcher follows. The guard keeps the descriptors of each: so the servers
// of a gateway outlive its watcher and its guard.
type servers struct {
	page     *page.Page
	guard    *page.Guard
	guarding guarding // how the next guard is forked
	// listenerFD is the listener's descriptor in this process. A new guard writes its own number to the page.
	listenerFD int
	starters   *starters
	reporter   *reporter
	hub        *loop.Hub

	mu        sync.Mutex
	byNumber  map[int]*launcher.TakenServer
	numbers   numbers
	unwatched []page.Kept // servers that this watcher failed to go on with
}

// numbers are those by which a watcher and the guard speak of servers.
type numbers struct {
	free []int // below next
	next int
}

func (n *numbers) reserve() int {
	last := len(n.free) - 1
	if last < 0 {
		n.next++
		return n.next - 1
	}
	number := n.free[last]
	n.free = n.free[:last]
	return number
}

func (n *numbers) release(number int) { n.free = append(n.free, number) }

// reservedFiles is how many descriptors are left for later: for the start of a guard, a stop, the next
// watcher.
const reservedFiles = 128

// checkFiles fails if another server would take the descriptors that the watcher needs for those that it has.
// The kernel gives the lowest number that is free.
func (s *servers) checkFiles() error {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it can't fail
	next, err := unix.FcntlInt(uintptr(s.starters.gateway.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(next) // a copy
		if uint64(next) < limit.Cur-min(reservedFiles, limit.Cur/2) {
			return nil
		}
		err = unix.EMFILE
	}
	others := text.Counted(s.count(), "other server")
	return fmt.Errorf("beside %s: %w (RLIMIT_NOFILE is %d)", others, err, limit.Cur)
}

func (s *servers) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byNumber)
}

// keep has the guard keep a server for the next watcher. It fails if the guard has no descriptors for it, and
// not if that was killed: see replaceGuard.
func (s *servers) keep(t *launcher.TakenServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Number = s.numbers.reserve()
	s.byNumber[t.Number] = t
	err := s.guard.Keep(t.Number, t.Kept())
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// drop has the guard forget a server. mu is locked.
func (s *servers) drop(number int) {
	delete(s.byNumber, number)
	if s.guard.Drop(number) == nil { // or it was killed
		s.numbers.release(number)
	}
}

func (s *servers) remove(t *launcher.TakenServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(t.Number)
}

// passOnRequests stops the trees that have a request of a stop on their pages. A signal announces it.
func (s *servers) passOnRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.byNumber {
		t.PassOnRequest()
	}
}

// followUntilEnd stops a server when it has to end.
func (s *servers) followUntilEnd(t *launcher.TakenServer) {
	t.Live()
	s.remove(t)
	go t.Close() // it may wait for a manager that hangs
}

// release leaves a program alone that is no server, or that can't be followed.
func (s *servers) release(t *launcher.TakenServer) {
	s.remove(t)
	t.Release()
}

// retaken are the servers of the watcher before.
type retaken struct {
	running []*launcher.TakenServer
	ended   []int // their numbers
}

// retake continues with the servers of the watcher before. The caller drops those that have ended. The guard
// goes on to keep one that fails here: no sweep touches it, and the next watcher tries again. mu is locked.
func (s *servers) retake() (found retaken, err error) {
	kept, err := s.page.Servers()
	if err != nil {
		return retaken{}, err
	}
	s.numbers.next = len(kept)
	heir := launcher.Heir{
		Hub: s.hub, Env: s.guarding.env, Guard: int(s.page.ByGuard.GuardPID),
		ClientPIDFD: func(c protocol.ClientFacts) int { return s.starters.find(c).pidfd },
	}
	var failed []error
	for number, descriptors := range kept {
		if descriptors.Memory == 0 {
			s.numbers.release(number)
			continue
		}
		t, err := heir.Retake(descriptors)
		switch {
		case t == nil && proc.IgnoreGone(err) == nil:
			found.ended = append(found.ended, number)
		case err != nil:
			failed = append(failed, err)
			s.unwatched = append(s.unwatched, descriptors)
		default:
			t.Number = number
			s.byNumber[number] = t
			found.running = append(found.running, t)
		}
	}
	if len(failed) > 0 {
		lost := text.Counted(len(failed), "server")
		s.reporter.reportNote(fmt.Sprintf("%s cannot be watched any more: %v", lost, failed[0]))
	}
	return found, nil
}

// guarding are the values with which a guard of the gateway is forked.
type guarding struct {
	gateway int    // its pid
	name    string // of the gateway, "" if it is derived
	env     []string
	// require has the guard refuse the gateway's own exec where servers can't be contained.
	require bool
}

// replaceGuard replaces a guard that was killed, and returns when the new one has started a watcher in our
// place. mu is locked, and stays locked: no process is put into a group any more that the next watcher does
// not know.
//
// It tries until that succeeds. The host may have no process or no descriptor for a guard, and if the watcher
// ended, nobody would have the listener: each execve below the gateway would fail, for ever.
func (s *servers) replaceGuard() {
	const pauseMost = 100 * time.Millisecond
	for pause := time.Millisecond; s.forkNextGuard() != nil; pause = min(2*pause, pauseMost) {
		time.Sleep(pause)
	}
}

// forkNextGuard fails also if the new guard was killed.
func (s *servers) forkNextGuard() error {
	if err := s.page.ForgetServers(); err != nil {
		return err
	}
	before := s.page.ByGuard.Generation
	const startsWatcher = true
	next, err := s.guarding.fork(s.page, startsWatcher)
	if err != nil {
		return err
	}
	defer func() {
		_ = unix.Close(next.Sock) // the next watcher has another one, or the guard ends with it
		_ = unix.Close(next.PIDFD)
	}()
	if err := s.giveServers(next); err != nil {
		return err
	}
	if errno := next.Go(s.listenerFD); errno != 0 {
		return unix.ESRCH
	}
	for atomic.LoadUint32(&s.page.ByGuard.Generation) == before {
		if linux.Ended(next.PIDFD) {
			return unix.ESRCH
		}
		time.Sleep(time.Millisecond) // it sends no byte to us: its socket is the next one's
	}
	return nil
}

// giveServers has the next guard keep all servers. It fails with ESRCH if that guard was killed.
func (s *servers) giveServers(next *page.Guard) error {
	guardPID := int(s.page.ByGuard.GuardPID)
	number := 0
	for _, t := range s.byNumber {
		t.GuardedBy(guardPID)
		err := next.Keep(number, t.Kept())
		if errors.Is(err, unix.ESRCH) {
			return err
		}
		if err != nil {
			s.loseUnkept(t, err)
			continue
		}
		number++
	}
	for _, descriptors := range s.unwatched {
		launcher.Reguard(descriptors, guardPID)
		if next.Keep(number, descriptors) == nil { // or there is no descriptor for it either
			number++
		}
	}
	return nil
}

// loseUnkept leaves a server that the next watcher cannot have, and reports it. No sweep takes it for an
// orphan.
func (s *servers) loseUnkept(t *launcher.TakenServer, why error) {
	t.Disarm()
	pid := t.Config.Main.PID
	s.reporter.reportOutside(pid, t.Config.Argv, s.starters.clientOf(pid).name(), why)
}
