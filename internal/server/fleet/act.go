// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fleet

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// AsConfigured as a grace leaves it to the server's policy.
const AsConfigured time.Duration = -2

const (
	// StopMost bounds the term grace that a server's attribute names: the server can have written that. A grace that is
	// asked for has no bound.
	StopMost = time.Minute
	// killSlack is for a supervisor to kill its server and to remove the group. Then it is killed itself.
	killSlack = 4 * time.Second
)

// Stop asks the supervisor to end the server, and when the term grace is over to kill it. It waits until nothing is left. A
// grace can shorten the server's own, and not lengthen it; AsConfigured is that one. An orphan, and a server whose
// supervisor does not do it in time, it ends itself.
func (s *Listed) Stop(grace time.Duration) error {
	var err error
	if s.State == Orphaned {
		err = s.stopOrphan(grace)
	} else {
		err = s.RequestStop()
	}
	if err != nil {
		return err
	}
	var deadline time.Time
	if grace = s.patience(grace); grace >= 0 {
		deadline = time.Now().Add(grace)
	}
	if err := s.Wait(deadline); !errors.Is(err, ErrStuck) {
		return err
	}
	if err := s.signalSupervisor(protocol.KillSignal); err != nil {
		return err
	}
	slack := killSlack
	if s.group != nil && s.group.Engine() != "" {
		slack += protocol.EngineWithin
	}
	if err := s.Wait(time.Now().Add(slack)); !errors.Is(err, ErrStuck) {
		return err
	}
	if s.group == nil {
		return s.forceTreeStop()
	}
	return s.forceStop()
}

// patience is how long the supervisor gets before it is to kill; freeze.Forever if that was asked for.
func (s *Listed) patience(grace time.Duration) time.Duration {
	if grace != AsConfigured {
		return grace
	}
	p, err := protocol.ParsePolicy(s.Policy)
	if err != nil {
		p = protocol.DefaultPolicy() // not to be read, so the supervisor is another version's
	}
	most := StopMost
	if s.UID != os.Getuid() {
		most = sweep.OthersWithin
	}
	if p.TermGrace < 0 || p.TermGrace > most {
		p.TermGrace = most
	}
	return p.TermGrace
}

// ErrStuck says that not all of a server has ended.
var ErrStuck = errors.New("not all has ended")

// stopOrphan does nothing about a group that somebody else is ending.
func (s *Listed) stopOrphan(grace time.Duration) error {
	if grace == AsConfigured {
		grace = sweep.SweepGrace
	}
	parent, err := s.group.Top.Parent()
	if err != nil {
		return group.IgnoreGone(err)
	}
	defer parent.Close()
	g, err := sweep.FindOrphan(parent, s.group.Dir, time.Now().Add(protocol.DoubtMost))
	if err != nil || g == nil {
		return err
	}
	swept, err := g.End(grace, nil)
	return stuckError(swept, err)
}

func stuckError(s sweep.Swept, err error) error {
	if err == nil && s.Stuck != "" {
		return fmt.Errorf("%w: %s", ErrStuck, s.Stuck)
	}
	return err
}

// forceStop ends the group with its supervisor, which has had its time.
func (s *Listed) forceStop() error {
	parent, err := s.group.Top.Parent()
	if err != nil {
		return group.IgnoreGone(err)
	}
	defer parent.Close()
	g, ours, err := sweep.Open(parent, s.group.Dir)
	if err != nil || !ours || !g.Top.Same(s.group.Top) {
		g.Close()
		return group.IgnoreGone(err)
	}
	swept, err := g.End(sweep.SweepNow, nil)
	return stuckError(swept, err)
}

// RequestStop asks the supervisor to end the server with its own term grace.
func (s *Listed) RequestStop() error { return s.signalSupervisor(protocol.StopSignal) }

// signalSupervisor reaches it although it was stopped, or frozen.
func (s *Listed) signalSupervisor(sig unix.Signal) error {
	if s.group == nil {
		return s.signalTreeSupervisor(sig)
	}
	supervisor, err := s.group.Top.Child(protocol.SupervisorName)
	if err != nil {
		return group.IgnoreGone(err)
	}
	defer supervisor.Close()
	if group.Frozen(supervisor) {
		_ = s.group.Top.SetFrozen(false) // by systemctl freeze, or by a member
		_ = supervisor.Thaw()
	}
	// a server that is being started has its supervisor in a moment
	born := func(st cgroup.State) bool {
		return st.Populated || !group.Populated(s.group.Top) && !(&sweep.Suspect{ControlGroup: s.group}).Said(group.AttrLauncher, group.Identity.Alive)
	}
	if _, _, err := supervisor.Await(time.Now().Add(bornWithin), -1, born); err != nil {
		return group.IgnoreGone(fmt.Errorf("ask the supervisor: %w", err))
	}
	reached, err := freeze.Signal(supervisor, sig, unix.SIGCONT)
	if err == nil && len(reached) == 0 && group.Populated(supervisor) {
		err = unix.EPERM
	}
	if err != nil {
		return group.IgnoreGone(fmt.Errorf("ask the supervisor %d: %w", s.Supervisor, err))
	}
	return nil
}

// bornWithin is how long a launcher may take from its group to its supervisor.
const bornWithin = time.Second

func (s *Listed) signalTreeSupervisor(sig unix.Signal) error {
	t, err := s.openTree()
	if err != nil {
		return group.IgnoreGone(err)
	}
	for _, sig := range []unix.Signal{sig, unix.SIGCONT} {
		if err := unix.PidfdSendSignal(t.PIDFD, sig, nil, 0); err != nil {
			return group.IgnoreGone(fmt.Errorf("ask the supervisor %d: %w", t.PID, err))
		}
	}
	return nil
}

// forceTreeStop kills the supervisor, and its guard ends the tree.
func (s *Listed) forceTreeStop() error {
	if t, err := s.openTree(); err == nil {
		_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGKILL, nil, 0) // gone is as good
	}
	return s.Wait(time.Now().Add(protocol.GuardWithin))
}

// frozenWithin is for a member that gets no processor to stop on; one in uninterruptible sleep
// takes longer than anybody waits.
const frozenWithin = 5 * time.Second

// Freeze freezes all members, and Thaw lets them go on. A frozen server is thawed to be
// ended.
func (s *Listed) Freeze() error {
	members, err := s.payload()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(frozenWithin); !freeze.Freeze(members); {
		if err := members.SetFrozen(true); err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("freeze: not all members have stopped: %w", unix.EAGAIN)
		}
	}
	s.subject().Tell(protocol.EventFrozen, systemd.Info, "frozen")
	return nil
}

// Thaw is described with Freeze.
func (s *Listed) Thaw() error {
	members, err := s.payload()
	if err != nil {
		return err
	}
	if err := members.SetFrozen(false); err != nil {
		return err
	}
	if err := members.Thaw(); err != nil {
		return err
	}
	s.subject().Tell(protocol.EventThawed, systemd.Info, "thawed")
	return nil
}

// Wait waits until nothing of the server is left, its supervisor included.
func (s *Listed) Wait(deadline time.Time) error {
	if s.group == nil {
		return s.waitTree(deadline)
	}
	_, gone, err := s.group.Top.Await(deadline, -1, group.IsEmpty)
	if err == nil && !gone {
		err = ErrStuck
		if pids, memberErr := s.group.Payload.Members(); memberErr == nil && len(pids) > 0 {
			err = fmt.Errorf("%w: %s", ErrStuck, describeAll(pids))
		}
	}
	return err
}

// waitTree waits for the guard too, which ends what a killed supervisor leaves.
func (s *Listed) waitTree(deadline time.Time) error {
	t, err := s.openTree()
	if err != nil {
		return group.IgnoreGone(err)
	}
	all := []int{t.PIDFD}
	if guard := t.OpenGuard(); guard >= 0 {
		defer unix.Close(guard)
		all = append(all, guard)
	}
	for _, pidfd := range all {
		fds, err := linux.PollUntil(deadline, unix.PollFd{Fd: int32(pidfd), Events: unix.POLLIN})
		if err != nil {
			return err
		}
		if fds[0].Revents == 0 {
			return ErrStuck
		}
	}
	return nil
}

// describeAll names processes for people.
func describeAll(pids []int) string {
	var all []string
	for _, pid := range pids {
		if st, err := proc.ReadStat(pid); err == nil {
			all = append(all, fmt.Sprintf("process %d (%s)", pid, st.Comm))
		}
	}
	return strings.Join(all, ", ")
}

// TellStop writes to the journal who is about to ask for a stop. The uid is what the journal knows of the writer.
func (s *Listed) TellStop(by string) {
	s.subject().Tell(protocol.EventStopRequested, systemd.Info, "is to stop: "+by, systemd.JournalField{Name: protocol.FieldBy, Value: by})
}
