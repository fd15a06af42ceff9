// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fleet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// AsConfigured as a grace leaves it to the server's policy.
const AsConfigured time.Duration = -2

// stopMost bounds the term grace in a server's attribute, which the server can write.
const stopMost = time.Minute

// Stop requests a stop of the guard, and after the term grace it stops the server itself. It waits until
// nothing is left. A grace can only shorten the server's own, which AsConfigured is.
func (s *Listed) Stop(grace time.Duration) error {
	if s.State == Orphaned {
		if grace == AsConfigured {
			grace = sweep.SweepGrace
		}
		return s.sweep(grace)
	}
	if err := s.RequestStop(); err != nil {
		return err
	}
	if grace == AsConfigured {
		grace = stopMost
		if own := s.Policy.TermGrace; own >= 0 {
			grace = min(own, stopMost)
		}
		grace += protocol.ReactWithin // for the launcher to do it
	}
	var deadline time.Time
	if grace >= 0 {
		deadline = time.Now().Add(grace)
	}
	if err := s.Wait(deadline); !errors.Is(err, ErrStuck) {
		return err
	}
	// the kill leaves the removal and the report to the launcher
	if _, err := (freeze.Stop{Target: s.members}).Run(); group.IgnoreGone(err) != nil {
		return err
	}
	slack := protocol.ReactWithin
	if s.group != nil && s.group.Engine() != "" {
		slack += protocol.EngineWithin
	}
	if err := s.Wait(time.Now().Add(slack)); s.group == nil || !errors.Is(err, ErrStuck) {
		return err
	}
	return s.sweep(0)
}

// ErrStuck: processes of a server are left.
var ErrStuck = errors.New("not all has ended")

// sweep stops a group whose launcher and guard are dead, or did not stop it in time.
func (s *Listed) sweep(grace time.Duration) error {
	g := *s.group
	var err error
	if g.Parent, err = g.Top.Parent(); err != nil {
		return group.IgnoreGone(err)
	}
	defer g.Parent.Close()
	swept, err := sweep.End(&g, grace)
	if err == nil && swept.Stuck != "" {
		return fmt.Errorf("%w: %s", ErrStuck, swept.Stuck)
	}
	return err
}

// RequestStop requests a stop with the server's own term grace. It continues a guard that a member has
// stopped.
func (s *Listed) RequestStop() error {
	if s.group == nil {
		return requestOf(s.tree.PIDFD)
	}
	guard := s.group.OpenGuard()
	if guard < 0 {
		return nil // the server starts, or has ended
	}
	defer unix.Close(guard)
	if group.Frozen(s.group.Top) {
		_ = s.group.Top.Thaw() // systemctl freeze, or a member, has frozen the guard
	}
	return requestOf(guard)
}

func requestOf(guard int) error {
	for _, sig := range []unix.Signal{protocol.StopSignal, unix.SIGCONT} {
		if err := unix.PidfdSendSignal(guard, sig, nil, 0); err != nil {
			return group.IgnoreGone(fmt.Errorf("request a stop: %w", err))
		}
	}
	return nil
}

// frozenWithin is for a member that gets no processor. One in uninterruptible sleep takes longer.
const frozenWithin = 5 * time.Second

// Freeze freezes all members. A stop thaws them.
func (s *Listed) Freeze() error {
	if err := s.awaitRoom(); err != nil {
		return err
	}
	if s.group != nil {
		if err := s.group.Payload.SetAttr(idle.AttrHeld, "1"); err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
	}
	for deadline := time.Now().Add(frozenWithin); !freeze.Freeze(s.members); {
		if err := s.members.SetFrozen(true); err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("freeze: not all members have stopped: %w", unix.EAGAIN)
		}
	}
	s.subject().Log(protocol.EventFrozen, systemd.Info, "frozen")
	return nil
}

// awaitRoom waits until members can write. A freeze interrupts a write(2) that waits for the client, and
// not every runtime writes the rest (CPython issue 85393).
func (s *Listed) awaitRoom() error {
	pids, err := s.Processes()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(frozenWithin)
	for _, pid := range pids {
		for _, number := range []int{1, 2} {
			if !client.AwaitRoom(pid, number, time.Until(deadline)) {
				return fmt.Errorf("freeze: the client does not read what process %d writes, "+
					"and a freeze can lose a part of it: %w", pid, unix.EAGAIN)
			}
		}
	}
	return nil
}

func (s *Listed) Thaw() error {
	if s.group != nil {
		_ = s.group.Payload.RemoveAttr(idle.AttrHeld) // there may be none
	}
	if err := s.members.SetFrozen(false); err != nil {
		return err
	}
	if err := s.members.Thaw(); err != nil {
		return err
	}
	s.subject().Log(protocol.EventThawed, systemd.Info, "thawed")
	return nil
}

// Wait waits until nothing of the server is left, its guard included.
func (s *Listed) Wait(deadline time.Time) error {
	if s.group == nil { // the guard stays until nothing is left
		fds, err := linux.PollUntil(deadline, unix.PollFd{Fd: int32(s.tree.PIDFD), Events: unix.POLLIN})
		if err == nil && fds[0].Revents == 0 {
			err = ErrStuck
		}
		return err
	}
	_, gone, err := s.group.Top.Await(deadline, group.IsEmpty)
	if err == nil && !gone {
		err = ErrStuck
		if pids, memberErr := s.group.Payload.Members(); memberErr == nil && len(pids) > 0 {
			err = fmt.Errorf("%w: %s", ErrStuck, describeAll(pids))
		}
	}
	if guard := s.group.OpenGuard(); err == nil && guard >= 0 { // it removes the group
		defer unix.Close(guard)
		_ = linux.AwaitEnd(guard, unix.POLLIN, protocol.ReactWithin)
	}
	return err
}

func describeAll(pids []int) string {
	var all []string
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err == nil {
			all = append(all, fmt.Sprintf("process %d (%s)", pid, st.Comm))
		}
	}
	return strings.Join(all, ", ")
}

// LogStop writes an event about a request to the journal, which records the user.
func (s *Listed) LogStop(by string) {
	s.subject().Log(protocol.EventStopRequested, systemd.Info, "is to stop: "+by,
		systemd.JournalField{Name: protocol.FieldBy, Value: by})
}
