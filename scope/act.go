//go:build linux

package scope

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
// that is AsConfigured, and waits until nothing is left. An orphan it ends itself.
func (s *Listed) Stop(grace time.Duration) error {
	if s.State == Orphaned {
		return s.stopOrphan(grace)
	}
	if err := s.requestStop(grace); err != nil {
		return err
	}
	var deadline time.Time
	if patience := s.patience(grace); patience >= 0 {
		deadline = time.Now().Add(patience + stopSlack)
	}
	return s.Wait(deadline)
}

// patience is the grace that a stop will have; freeze.Forever if it has no end.
func (s *Listed) patience(grace time.Duration) time.Duration {
	if grace != AsConfigured {
		return grace
	}
	p, err := ParsePolicy(s.Policy)
	if err != nil {
		return DefaultPolicy().TermGrace // not to be read, so the supervisor is another version's
	}
	return p.TermGrace
}

// ErrStuck says that not all of a server has ended.
var ErrStuck = errors.New("not all has ended")

func (s *Listed) stopOrphan(grace time.Duration) error {
	if grace == AsConfigured {
		grace = sweepGrace
	}
	parent, err := s.group.top.Parent()
	if err != nil {
		return ignoreGone(err)
	}
	defer parent.Close()
	g, err := findOrphan(parent, s.group.dir)
	if err != nil || g == nil {
		return err // it has gone, or somebody is ending it
	}
	swept, err := g.end(grace, nil)
	if err == nil && swept.Stuck != "" {
		return fmt.Errorf("%w: %s", ErrStuck, swept.Stuck)
	}
	return err
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
	reached, err := freeze.Signal(supervisor, unix.SIGTERM, unix.SIGCONT)
	if err == nil && len(reached) == 0 && populated(supervisor) {
		err = unix.EPERM
	}
	if err != nil {
		return fmt.Errorf("ask the supervisor %d: %w", s.Supervisor, err)
	}
	return nil
}

// requestWithin is how long a supervisor may be quicker to answer than we are to ask, or have
// no processor to answer with.
const requestWithin = 15 * time.Second

func (s *Listed) requestTreeStop(grace time.Duration) error {
	request := requestStop
	if grace != AsConfigured {
		request += graceText(grace)
	}
	for deadline := time.Now().Add(requestWithin); time.Now().Before(deadline); {
		f, _, err := askFor(s.tree, request)
		if errors.Is(err, unix.ECONNRESET) || errors.Is(err, errSilent) {
			continue // it has answered before it could read this, or not yet
		}
		if err != nil || f.Heard {
			return err
		}
	}
	return errSilent
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

func (s *Listed) waitTree(deadline time.Time) error {
	members, err := s.treeBelow()
	if errors.Is(err, proc.ErrGone) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	root := members.Roots[0]
	defer unix.Close(root.PIDFD)
	fds, err := poll.Until(deadline, unix.PollFd{Fd: int32(root.PIDFD), Events: unix.POLLIN})
	if err == nil && fds[0].Revents == 0 {
		err = ErrStuck
	}
	return err
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
