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
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// reported is the page's phase after the report: a later brain only waits and removes.
const reported = 100

var errGuard = errors.New("the guard was killed, so the server was ended")

func (b *brain) end() {
	b.endLeftOvers()
	if b.page.FailedStep == page.StepNone && b.page.Phase != reported {
		b.awaitStatus()
		b.endContainers(b.config.Policy.TermGrace)
		b.writeReport()
	}
	b.page.Phase = reported
	if len(b.stuck) > 0 && !b.later {
		return // a later brain waits for them
	}
	if len(b.stuck) > 0 {
		_, _, _ = b.group.Members().Await(time.Time{}, group.IsEmpty)
	}
	b.finish()
	_ = b.group.Remove() // a sweep removes what can't be removed now
	b.guard.Done()
	if !b.later {
		b.wait()
	}
}

// failure is the reason that there was no server.
func (b *brain) failure() error {
	step, errno := b.page.FailedStep, unix.Errno(b.page.Errno)
	switch step {
	case page.StepNone:
		return nil
	case page.StepExec:
		return &protocol.CommandError{Command: b.config.Path, Errno: errno}
	}
	return fmt.Errorf("start the server: %v: %w", step, errno)
}

// awaitStatus waits for the status of the main process, which the guard may reap after the group is empty.
func (b *brain) awaitStatus() {
	for b.page.MainPID > 0 && !b.page.Exited && len(b.stuck) == 0 {
		if !linux.AwaitEnd(b.guard.Sock(), unix.POLLIN, protocol.ReactWithin) || b.guard.Drain() {
			return
		}
	}
}

// wait waits for the guard's exit. A member may have stopped or traced the guard.
func (b *brain) wait() {
	if !b.deposed && !linux.AwaitEnd(b.guard.PIDFD(), unix.POLLIN, protocol.ReactWithin) {
		_ = unix.PidfdSendSignal(b.guard.PIDFD(), unix.SIGKILL, nil, 0) // it has exited
	}
	_, _ = linux.PollUntil(time.Time{}, unix.PollFd{Fd: int32(b.guard.PIDFD()), Events: unix.POLLIN})
	if b.subreaper {
		signals.ReapAll()
	}
}

func (b *brain) outcome() (Outcome, error) {
	o := Outcome{
		Status: unix.WaitStatus(b.page.Status), Known: b.page.Exited, Notes: b.notesForPeople(),
		Stuck: b.stuckForPeople(), Reported: b.page.FailedStep == page.StepNone,
	}
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

// neverStarted are exit statuses of an engine that could not start a container, and of a shell that could
// not start the engine.
var neverStarted = []int{125, 126, 127}
