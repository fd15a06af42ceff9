// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// helperCall is the helper that a guard has started, or is about to.
type helperCall struct {
	goProcess
	retryAt int64      // no earlier after a failure, or 0
	tasks   page.Tasks // that it knows of
	dueBy   int64      // when it is replaced, if it has not done them by then; or 0
	failed  page.Tasks // that no helper could do
	askAt   int64      // when a helper looks for the holder of stdin again, or 0
}

// taskWithin is for a helper, from its start on or when it gets a task.
const taskWithin = 5e9

// neededAt is when a helper is needed; 0 for never.
func (c *helperCall) neededAt(on *page.Page) int64 {
	if on.ByGuard.Tasks != 0 {
		return max(1, c.retryAt)
	}
	at := decide.Earlier(on.ByHelper.CallHelperAt, c.askAt)
	hasThawed := on.ByGuard.Thaw.IsNew && on.ByGuard.Stop.State.Phase <= decide.Grace
	if hasThawed { // a helper that was about to rest has not noticed, and has written a later time
		at = 1
	}
	if at == 0 {
		return 0
	}
	return max(at, c.retryAt)
}

// setTasks has a helper find who holds stdin after the death of the client, move members that are kept, find
// those that others use, and end containers.
func (c *helperCall) setTasks(s *stop, events *guardEvents) {
	on := s.page
	tasks := on.ByGuard.Tasks & page.End
	if s.wantsContainers && s.hasContainers() {
		tasks |= page.EndContainers
	}
	if s.wantsPrepared && page.MayKeep(on) {
		tasks |= page.KeepMembers
	}
	if s.wantsPrepared && page.MayFindUse(on) {
		tasks |= page.FindUse
	}
	if page.SeeksHolder(on) {
		tasks |= c.findHolder(on, events)
	} else {
		c.askAt = 0
	}
	on.ByGuard.Tasks = tasks &^ c.failed
}

// findHolder goes on as a helper has answered, and returns the task if one has to look. Another process that
// holds the client's end is the client now. No event says that an unknown one has closed it.
func (c *helperCall) findHolder(on *page.Page, events *guardEvents) page.Tasks {
	found := on.ByHelper.Holder
	on.ByHelper.Holder = page.NoAnswer
	if found == page.UnknownHolder {
		c.askAt = now() + page.HolderEach
	}
	if found == page.LivingHolder {
		fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(on.ByHelper.HolderPID), 0, 0, 0, 0)
		if e == 0 { // only polled: it may be another process's by now
			on.ByGuard.Happened[page.ClientDied] = 0
			events.polls[pollClient].Fd = int32(fd)
			return 0
		}
	}
	if now() < c.askAt {
		return 0
	}
	c.askAt = 0
	return page.FindHolder
}

// forget kills a helper that ends, and closes its socket.
func (c *helperCall) forget() {
	c.kill(forgottenWithin)
	closeFD(c.sock)
	c.sock = -1
	c.dueBy = 0
}
