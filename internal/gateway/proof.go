// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"sync"
	"time"

	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A name proves nothing: `mcp_report.py` in a pipeline, build-mcp.sh and mcp-cli have the word, too. So a
// program that is known by its name alone gets a group, for it may be gone from its client's process tree
// before it is proven a server, and nothing else. It has no limits, is not listed, and nothing stops it:
// neither the end of its stdin, nor that of its main process or of the gateway, nor a sweep. The first
// message of MCP that its client writes makes it a server. So does the end of the gateway, if that held its
// stdin until then.

// place puts a process into a group of its own until it is proven a server, or left alone.
func (w *watcher) place(c *candidate, why string, r *notify.Request) {
	s := w.serverOf(c, r)
	s.Unproven = true
	t, err := w.newGroupFor(s, c)
	if err != nil {
		w.sayOutside(c.pid, c.argv, err)
		closeAll(c.pidfd)
		return
	}
	w.explain(c.pid, fmt.Sprintf("placed in %s (%s)", t.ID(), t.Backend()), c.argv, why)
	w.await(c, t)
}

// await waits for the proof that a program with a group is a server.
func (w *watcher) await(c *candidate, t *launcher.Taken) {
	c.group = t
	w.candidates.setUnproven(t.ID(), true)
	w.lookForHolder(c)
	w.candidates.enter(c)
	// The thread that copies the first message waits before the program runs, however busy the machine is.
	p := newPeeker()
	p.reopen(c)
	p.ask()
	w.attended.Add(1)
	w.followed.Go(func() { w.attend(c, p) })
}

// prove makes a placed program a server. Its candidate is decided.
func (w *watcher) prove(c *candidate, why string) {
	t := c.group
	s := w.server(t.Name(), c.client)
	if err := t.Prove(s.Limits, "a server: "+why); err != nil {
		w.sayOutside(c.pid, c.argv, err)
		w.release(t)
		return
	}
	w.sayUnlimited(t, s)
	if s.Stderr == protocol.StderrJournal {
		const why = "stderr is the client's: when it started, only its name said that it is a server"
		t.SetStderr(protocol.StderrInherit, why)
	}
	w.candidates.setUnproven(t.ID(), false)
	w.follow(t, c, why, -1)
}

// holder describes the gateway's end of a candidate's stdin.
type holder struct {
	isGateway bool
	known     bool      // the gateway was alive at some look
	next      time.Time // the next look, the zero time for none
	pause     time.Duration
}

const (
	firstHolderPause = 10 * time.Millisecond
	lastHolderPause  = 10 * time.Second
)

// lookForHolder finds out whether the gateway itself has the other end of a placed program's stdin: when the
// gateway has ended it is too late. While the gateway forks, it also has the ends that it gives to other
// children. So this looks again and again, and less and less often. next is the time of the next look, or the
// zero time.
func (w *watcher) lookForHolder(c *candidate) (next time.Time) {
	h := &c.holder
	if c.group == nil || h.pause > lastHolderPause || time.Now().Before(h.next) {
		return h.next
	}
	held := c.group.HeldIn(c.client.ends.of(c.client.PID))
	if !c.client.exits() { // it had its descriptors still
		h.isGateway = held
		h.known = true
	}
	h.pause = max(2*h.pause, firstHolderPause)
	h.next = time.Now().Add(h.pause)
	if h.pause > lastHolderPause {
		h.next = time.Time{}
	}
	return h.next
}

// ends caches what a starter holds, which takes long to read for one that has many servers.
type ends struct {
	mu    sync.Mutex
	last  client.Ends
	until time.Time
}

// of reads the ends anew when it has spent less than a 20th of the time on that.
func (e *ends) of(pid int) client.Ends {
	e.mu.Lock()
	defer e.mu.Unlock()
	began := time.Now()
	if began.Before(e.until) {
		return e.last
	}
	e.last, _ = client.EndsOf(pid) // a part is better than none
	now := time.Now()
	e.until = now.Add(20 * now.Sub(began))
	return e.last
}

// conclude decides about a candidate when there is nothing more to be seen. At the end of the gateway its
// stdin is closed and the program may end, in any order.
func (w *watcher) conclude(c *candidate, why string) {
	if c.group == nil || !c.client.exits() {
		w.leaveAlone(c, why)
		return
	}
	held := c.holder.isGateway
	if !c.holder.known { // the gateway has ended before the first look
		held = abandoned(c.pid)
	}
	switch {
	case held:
		w.accept(c, "the gateway held its stdin until it ended", nil, nil)
	case c.client.serviceIsGone():
		w.accept(c, "systemd has stopped the gateway's service", nil, nil)
	default:
		w.leaveAlone(c, why)
	}
}

// serviceIsGone reports whether the service in which a starter was has no process left soon after its end.
// systemd kills all processes of a service then, and would have killed a program that was moved out of it,
// too. It does not do so in a scope.
func (s *starter) serviceIsGone() bool {
	if s.service == nil {
		return false
	}
	for range serviceLooks {
		state, err := s.service.State()
		if err == nil && !state.Populated {
			return true
		}
		time.Sleep(serviceLookEvery)
	}
	return false
}

// A service's processes get SIGKILL as soon as its main process has ended (KillMode=mixed). No event reports
// that this will not happen.
const (
	serviceLookEvery = 20 * time.Millisecond
	serviceLooks     = 100
)

// leaveAlone is the end of a candidate that was not proven a server.
func (w *watcher) leaveAlone(c *candidate, why string) {
	if w.dismiss(c) {
		w.explain(c.pid, "left", c.argv, why)
	}
}

// dismiss leaves a candidate alone, unless it is decided already. Its group's members go back to the
// gateway's cgroup, and stay if there is no gateway any more.
func (w *watcher) dismiss(c *candidate) (dropped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.over = true
	if c.group == nil {
		return true
	}
	if !c.client.exits() {
		c.group.GiveBack(c.client.PID)
	}
	w.release(c.group)
	return true
}
