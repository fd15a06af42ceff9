//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/journal"
	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/proc"
)

// AsConfigured as a grace leaves it to the server's policy.
const AsConfigured time.Duration = -2

// stopSlack is for all of a stop but its grace: the kill and the removal. On a busy machine 5 s were not enough.
const stopSlack = 10 * time.Second

// Stop asks the supervisor to end the server, with another term grace than its own unless
// that is AsConfigured, and waits until nothing is left. An orphan, and a server whose supervisor does
// not do it in time, it ends itself.
func (s *Listed) Stop(grace time.Duration) error {
	if s.group == nil {
		return s.stopTree(grace)
	}
	patience, err := s.beginStop(grace)
	if err != nil {
		return err
	}
	var deadline time.Time
	if patience >= 0 {
		deadline = time.Now().Add(patience + stopSlack)
	}
	if err := s.Wait(deadline); !errors.Is(err, ErrStuck) {
		return err
	}
	return s.forceStop()
}

// beginStop ends an orphan at once, and asks the supervisor of another server. It returns how long to
// wait for the end, without the slack.
func (s *Listed) beginStop(grace time.Duration) (patience time.Duration, err error) {
	if s.State == Orphaned {
		return 0, s.stopOrphan(grace)
	}
	return s.patience(grace), s.requestStop(grace)
}

// patience is the grace that a stop will have; freeze.Forever if it has no end. What another user
// has configured delays nobody for long.
func (s *Listed) patience(grace time.Duration) time.Duration {
	if grace != AsConfigured {
		return grace
	}
	p, err := ParsePolicy(s.Policy)
	if err != nil {
		return DefaultPolicy().TermGrace // not to be read, so the supervisor is another version's
	}
	if s.UID != os.Getuid() && (p.TermGrace < 0 || p.TermGrace > othersWithin) {
		return othersWithin
	}
	return p.TermGrace
}

// ErrStuck says that not all of a server has ended.
var ErrStuck = errors.New("not all has ended")

// stopOrphan does nothing about a group that somebody else is ending.
func (s *Listed) stopOrphan(grace time.Duration) error {
	if grace == AsConfigured {
		grace = sweepGrace
	}
	parent, err := s.group.top.Parent()
	if err != nil {
		return ignoreGone(err)
	}
	defer parent.Close()
	g, err := findOrphan(parent, s.group.dir, time.Now().Add(doubtMost))
	if err != nil || g == nil {
		return err
	}
	swept, err := g.end(grace, nil)
	return stuckError(swept, err)
}

func stuckError(s Swept, err error) error {
	if err == nil && s.Stuck != "" {
		return fmt.Errorf("%w: %s", ErrStuck, s.Stuck)
	}
	return err
}

// forceStop ends the group with its supervisor, which has had its time.
func (s *Listed) forceStop() error {
	parent, err := s.group.top.Parent()
	if err != nil {
		return ignoreGone(err)
	}
	defer parent.Close()
	g := &suspect{controlGroup: &controlGroup{id: idOf(s.group.dir), dir: s.group.dir, parent: parent, managed: s.group.managed}}
	if g.top, err = parent.Child(g.dir); err == nil {
		g.payload, err = g.top.Child(payloadName)
	}
	if err != nil || !g.top.Same(s.group.top) {
		g.close()
		return ignoreGone(err)
	}
	swept, err := g.end(sweepNow, nil)
	return stuckError(swept, err)
}

func (s *Listed) requestStop(grace time.Duration) error {
	if s.group == nil {
		return s.requestTreeStop(grace)
	}
	if grace != AsConfigured {
		if err := s.group.payload.SetAttr(attrStop, graceText(grace)); err != nil {
			return err
		}
	}
	supervisor, err := s.group.top.Child(supervisorName)
	if err != nil {
		return ignoreGone(err)
	}
	defer supervisor.Close()
	if frozen(supervisor) {
		_ = s.group.top.SetFrozen(false) // by systemctl freeze, or by a member
		_ = supervisor.Thaw()
	}
	// a server that is being started has its supervisor in a moment
	born := func(st cgroup.State) bool {
		return st.Populated || !populated(s.group.top) && !(&suspect{controlGroup: s.group}).said(attrLauncher, identity.alive)
	}
	if _, _, err := supervisor.Await(time.Now().Add(bornWithin), -1, born); err != nil {
		return fmt.Errorf("ask the supervisor: %w", err)
	}
	reached, err := freeze.Signal(supervisor, stopSignal, unix.SIGCONT)
	if err == nil && len(reached) == 0 && populated(supervisor) {
		err = unix.EPERM
	}
	if err != nil {
		return fmt.Errorf("ask the supervisor %d: %w", s.Supervisor, err)
	}
	return nil
}

// bornWithin is how long a launcher may take from its group to its supervisor.
const bornWithin = time.Second

// requestTreeStop asks a supervisor even if it was stopped.
func (s *Listed) requestTreeStop(grace time.Duration) error {
	t, err := s.openTree()
	if err != nil {
		return ignoreGone(err)
	}
	if grace != AsConfigured {
		if err := t.file.write(partRequest, graceText(grace)); err != nil {
			return fmt.Errorf("ask the supervisor %d: %w", t.pid, err)
		}
	}
	for _, sig := range []unix.Signal{stopSignal, unix.SIGCONT} {
		if err := unix.PidfdSendSignal(t.pidfd, sig, nil, 0); err != nil {
			return ignoreGone(fmt.Errorf("ask the supervisor %d: %w", t.pid, err))
		}
	}
	return nil
}

func (s *Listed) stopTree(grace time.Duration) error {
	if err := s.requestTreeStop(grace); err != nil {
		return err
	}
	var deadline time.Time
	if patience := s.patience(grace); patience >= 0 {
		deadline = time.Now().Add(patience + stopSlack)
	}
	if err := s.Wait(deadline); !errors.Is(err, ErrStuck) {
		return err
	}
	if t, err := s.openTree(); err == nil {
		_ = unix.PidfdSendSignal(t.pidfd, unix.SIGKILL, nil, 0) // its guard ends the tree then
	}
	return s.Wait(time.Now().Add(guardWithin))
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
	s.subject().tell(EventFrozen, journal.Info, "frozen")
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
	s.subject().tell(EventThawed, journal.Info, "thawed")
	return nil
}

// Wait waits until nothing of the server is left, its supervisor included.
func (s *Listed) Wait(deadline time.Time) error {
	if s.group == nil {
		return s.waitTree(deadline)
	}
	_, gone, err := s.group.top.Await(deadline, -1, isEmpty)
	if err == nil && !gone {
		err = ErrStuck
		if pids, memberErr := s.group.payload.Members(); memberErr == nil && len(pids) > 0 {
			err = fmt.Errorf("%w: %s", ErrStuck, describeAll(pids))
		}
	}
	return err
}

// WaitForEver is Wait without a deadline.
func (s *Listed) WaitForEver() error { return s.Wait(time.Time{}) }

// waitTree waits for the guard too, which ends what a killed supervisor leaves.
func (s *Listed) waitTree(deadline time.Time) error {
	t, err := s.openTree()
	if err != nil {
		return ignoreGone(err)
	}
	all := []int{t.pidfd}
	if guard := t.openGuard(); guard >= 0 {
		defer unix.Close(guard)
		all = append(all, guard)
	}
	for _, pidfd := range all {
		fds, err := poll.Until(deadline, unix.PollFd{Fd: int32(pidfd), Events: unix.POLLIN})
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
