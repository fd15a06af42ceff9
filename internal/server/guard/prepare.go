// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Preparation is a launcher with a Go runtime, before it hands the server over to one without: see HandOver.
type Preparation struct {
	page    *page.Page
	keeper  guardKeeper
	birth   *birth
	waiting int32 // socket of a main process that waits for its start, or -1
}

// Prepare maps what the main process needs. The guard is forked next, and then the group is made.
func Prepare(on *page.Page, s *MainProcess) (*Preparation, error) {
	b, err := newBirth(on, s)
	if err != nil {
		return nil, err
	}
	on.Order.Foreign = hasChildren()
	return &Preparation{page: on, birth: b, waiting: -1, keeper: guardKeeper{page: on}}, nil
}

// Prefork forks the main process in a group, or before it has one (-1), for a manager that moves it to a
// scope. There it waits for its start.
func (p *Preparation) Prefork(payload int) (pid int, errno syscall.Errno) {
	p.birth.child.cgroup = int32(payload)
	p.waiting, errno = p.birth.prefork()
	return int(p.birth.child.pid), errno
}

// ForkGuard does what Fork does, and keeps the guard: the launcher replaces one that is killed.
func (p *Preparation) ForkGuard(o *Options) (*page.Guard, error) {
	lasts, err := newLasting(o)
	if err != nil {
		return nil, err
	}
	g, err := fork(p.page, lasts, o)
	if err != nil {
		return nil, err
	}
	p.keeper.lasting = *lasts
	p.keeper.guard = *g
	return g, nil
}

// Abandon ends the guard, and the main process: that exits when its socket is closed.
func (p *Preparation) Abandon() {
	if p.waiting >= 0 {
		forgetMain(p.waiting, p.birth.child.pid)
		p.waiting = -1
	}
	p.keeper.abandon()
}

// forgetMain reaps a main process that has waited, and does not start: it exits when its socket is closed.
func forgetMain(waiting, pid int32) {
	closeFD(waiting)
	sys(unix.SYS_WAIT4, uintptr(pid), 0, 0, 0, 0)
}
