// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// This file is how the servers of a gateway outlive its watcher and its guard.

// numbers are those by which a watcher and the guard speak of servers.
type numbers struct {
	free []int // below next
	next int
}

func (n *numbers) take() int {
	last := len(n.free) - 1
	if last < 0 {
		n.next++
		return n.next - 1
	}
	number := n.free[last]
	n.free = n.free[:last]
	return number
}

func (n *numbers) giveBack(number int) { n.free = append(n.free, number) }

// reserve is how many descriptors are left for later: for the start of a guard, a stop, the next watcher.
const reserve = 128

// room fails if another server would take the descriptors that the watcher needs for those that it has. The
// kernel gives the lowest number that is free.
func (w *watcher) room() error {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it can't fail
	next, err := unix.FcntlInt(uintptr(w.starters.gateway.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(next) // a copy
		if uint64(next) < limit.Cur-min(reserve, limit.Cur/2) {
			return nil
		}
		err = unix.EMFILE
	}
	return fmt.Errorf("beside %d others: %w (RLIMIT_NOFILE is %d)", w.count(), err, limit.Cur)
}

func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.servers)
}

// keep has the guard keep a server for the next watcher. It fails if the guard has no descriptors for it, and
// not if that was killed: see forkGuard.
func (w *watcher) keep(t *launcher.Taken) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Number = w.numbers.take()
	w.servers[t.Number] = t
	err := w.guard.Keep(t.Number, t.Kept())
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// drop has the guard forget a server. mu is locked.
func (w *watcher) drop(number int) {
	delete(w.servers, number)
	if w.guard.Drop(number) == nil { // or it was killed
		w.numbers.giveBack(number)
	}
}

// retake continues with the servers of the watcher before. The caller drops the numbers of those that have
// ended. The guard goes on to keep one that fails here: no sweep touches it, and the next watcher tries
// again. mu is locked.
func (w *watcher) retake() (ended []int, err error) {
	all, err := w.page.Servers()
	if err != nil {
		return nil, err
	}
	w.numbers.next = len(all)
	heir := launcher.Heir{
		Hub: w.hub, Env: w.env, Guard: int(w.page.ByGuard.GuardPID),
		ClientPIDFD: func(c protocol.ClientFacts) int { return w.client(c).pidfd },
	}
	var failed []error
	for number, kept := range all {
		if kept.Payload == 0 {
			w.numbers.giveBack(number)
			continue
		}
		t, err := heir.Retake(kept)
		switch {
		case t == nil && proc.IgnoreGone(err) == nil:
			ended = append(ended, number)
		case err != nil:
			failed = append(failed, err)
			w.unwatched = append(w.unwatched, kept)
		default:
			t.Number = number
			w.servers[number] = t
			w.goOn(t)
		}
	}
	if len(failed) > 0 {
		w.say(fmt.Sprintf("%d servers are not watched any more: %v", len(failed), failed[0]))
	}
	return ended, nil
}

// goOn watches a server of the watcher before.
func (w *watcher) goOn(t *launcher.Taken) {
	if t.IsProven() {
		w.followed.Go(func() { w.live(t) })
		return
	}
	pid, main := t.Main()
	pidfd, err := unix.FcntlInt(uintptr(main), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil { // it has ended
		w.followed.Go(func() { w.release(t) })
		return
	}
	c := &candidate{pid: pid, pidfd: pidfd, argv: arguments(pid), client: w.client(t.Config.Client)}
	c.stdin = fileAt(pid, 0)
	c.stdout = fileAt(pid, 1)
	w.await(c, t)
}

func (w *watcher) forget(t *launcher.Taken) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(t.Number)
}

// forkGuard replaces a guard that was killed, and returns when the new one has started a watcher in our
// place. No process is put into a group any more that the next watcher does not know: mu stays locked.
func (w *watcher) forkGuard() error {
	w.mu.Lock()
	return w.replaceGuard()
}

func (w *watcher) replaceGuard() error {
	for {
		err := w.forkOnce()
		if !errors.Is(err, unix.ESRCH) {
			return err
		}
		time.Sleep(time.Millisecond) // it is killed again and again
	}
}

// forkOnce fails with ESRCH if the new guard was killed, too.
func (w *watcher) forkOnce() error {
	if err := w.page.ForgetServers(); err != nil {
		return err
	}
	before := w.page.ByGuard.Generation
	next, err := fork(w.page, w.starters.gateway.PID, w.starters.gateway.given, w.env, w.Require, true)
	if err != nil {
		return err
	}
	defer func() {
		_ = unix.Close(next.Sock) // the next watcher has another one, or the guard ends with it
		_ = unix.Close(next.PIDFD)
	}()
	number := 0
	for _, t := range w.servers {
		t.GuardedBy(int(w.page.ByGuard.GuardPID))
		err := next.Keep(number, t.Kept())
		if errors.Is(err, unix.ESRCH) {
			return err
		}
		if err != nil {
			w.leave(t, err)
			continue
		}
		number++
	}
	for _, kept := range w.unwatched {
		launcher.Reguard(kept, int(w.page.ByGuard.GuardPID))
		if next.Keep(number, kept) == nil { // or there is no descriptor for it either
			number++
		}
	}
	if errno := next.Go(w.held, -1); errno != 0 {
		return unix.ESRCH
	}
	for atomic.LoadUint32(&w.page.ByGuard.Generation) == before {
		if linux.Ended(next.PIDFD) {
			return unix.ESRCH
		}
		time.Sleep(time.Millisecond) // it sends no byte to us: its socket is the next one's
	}
	return nil
}

// leave is for a server that the next watcher can't have: it must not pass for an orphan.
func (w *watcher) leave(t *launcher.Taken, why error) {
	t.Leave()
	w.sayOutside(t.Config.Main.PID, t.Config.Argv, why)
}
