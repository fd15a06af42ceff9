// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/signals"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// reported is the page's phase when nothing is left to report: a later brain waits for the rest, and removes.
const reported = 100

// errGuard says that the guard was killed; the server has been stopped.
var errGuard = errors.New("the guard was killed, so the server was ended")

// end kills what left the group, reports, and removes the group.
func (b *brain) end() {
	b.endLeftOvers()
	if b.page.FailedStep == guard.StepNone && b.page.Phase != reported {
		b.awaitStatus()
		b.endContainers(b.config.Policy.TermGrace)
		b.writeReport()
	}
	b.page.Phase = reported
	if len(b.stuck) > 0 && b.client != nil {
		return // the guard finds that out, and a later brain waits for them
	}
	if len(b.stuck) > 0 {
		_, _, _ = b.group.Members().Await(time.Time{}, group.IsEmpty)
	}
	b.finish()
	_ = b.group.Remove() // a sweep removes what can't be removed now
	b.guard.Done()
	if b.client != nil {
		b.wait()
	}
}

// failure is why there was no server. It is on the page before the main process has ended.
func (b *brain) failure() error {
	step, errno := b.page.FailedStep, unix.Errno(b.page.Errno)
	switch step {
	case guard.StepNone:
		return nil
	case guard.StepExec:
		return &protocol.CommandError{Command: b.config.Path, Errno: errno}
	}
	return fmt.Errorf("start the server: %v: %w", step, errno)
}

// awaitStatus is for the status of the main process, which a guard can have a moment after the group is empty.
func (b *brain) awaitStatus() {
	for b.page.MainPID > 0 && !b.page.Exited && len(b.stuck) == 0 && linux.AwaitEnd(b.guard.Sock(), unix.POLLIN, protocol.ReactWithin) {
		if b.guard.Drain() {
			return
		}
	}
}

// wait is for the guard's end, which is that of everything. When nothing is left it needs no more than a moment; a member can
// have taken from it what it needs to notice that.
func (b *brain) wait() {
	if !b.deposed && !linux.AwaitEnd(b.guard.PIDFD(), unix.POLLIN, protocol.ReactWithin) {
		_ = unix.PidfdSendSignal(b.guard.PIDFD(), unix.SIGKILL, nil, 0) // gone is as good
	}
	_, _ = linux.PollUntil(time.Time{}, unix.PollFd{Fd: int32(b.guard.PIDFD()), Events: unix.POLLIN})
	if b.subreaper {
		signals.ReapAll()
	}
}

// outcome is what the launcher returns.
func (b *brain) outcome() (Outcome, error) {
	o := Outcome{Status: unix.WaitStatus(b.page.Status), Known: b.page.Exited, Notes: b.notesForPeople(), Stuck: b.stuckForPeople(),
		Reported: b.page.FailedStep == guard.StepNone}
	if err := b.failure(); err != nil {
		return o, err
	}
	if b.life.Cause == protocol.GuardGone {
		err := errGuard
		for _, left := range o.Stuck {
			err = fmt.Errorf("%w, but %s is left", err, left)
		}
		return o, err
	}
	return o, nil
}

// endContainers stops what an engine runs for the server. A server that its client has started has no label.
func (b *brain) endContainers(grace time.Duration) {
	c := b.config
	if c.Engine() == "" || c.Taken {
		return
	}
	server := container.Contained{ID: c.Group.ID, Argv: c.Argv, Env: b.env, Grace: max(grace, 0)}
	switch err := server.End(); {
	case err == nil:
		b.undone = ""
	case b.page.Exited && slices.Contains(neverStarted, unix.WaitStatus(b.page.Status).ExitStatus()):
		b.note(err.Error())
	default:
		b.undone = err.Error()
	}
}

// neverStarted are the statuses of an engine's program that could not start a container, and of a shell that could not
// start that.
var neverStarted = []int{125, 126, 127}
