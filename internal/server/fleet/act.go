// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/idle"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/text"
)

const (
	frozenWithin = 5 * time.Second // for a member without a processor; uninterruptible sleep lasts longer
	thawedWithin = time.Second     // all of a thaw is one system call
	oomWithin    = 5 * time.Second // from the kernel's SIGKILL to the end of the members
)

// Stop requests a stop of the guard, and after the grace it stops the server itself. It waits until nothing
// is left. by is what the journal has about the request, before the server can end; "" is nothing.
func (s *Listed) Stop(grace Grace, by string) error {
	if err := s.checkOutside(); err != nil {
		return err
	}
	if by != "" {
		s.LogStop(by)
	}
	if s.Kept != nil {
		return s.stopKept(grace)
	}
	if s.State == Orphaned && !s.Handle.isTree() {
		return s.sweep(sweep.Abandoned, grace.shorten(sweep.SweepGrace))
	}
	if err := s.RequestStop(); err != nil {
		return err
	}
	killAt := grace.killAt(s.Facts.Policy.TermGrace)
	if ended, err := s.Handle.awaitEnd(killAt); ended || err != nil {
		return err
	}
	s.Handle.findNextGuard(s)
	left, err := freeze.Stop{Target: s.Handle.members}.Run() // the helper removes the group and reports
	if proc.IgnoreGone(err) != nil {
		return err
	}
	slack := policy.ReactWithin
	if !s.Handle.isTree() && s.Handle.group.Attributes().Engine() != "" {
		slack += policy.EngineWithin
	}
	if ended, err := s.Handle.awaitEnd(time.Now().Add(slack)); ended || err != nil {
		return err
	}
	if s.Handle.isTree() {
		return stuckError(group.DescribeStuck(left))
	}
	return s.sweep(sweep.NotStopped, 0)
}

func stuckError(left string) error { return fmt.Errorf("not all has ended: %s", left) }

// sweep stops a group whose launcher and guard are dead, or did not stop it in time.
func (s *Listed) sweep(why sweep.Reason, grace time.Duration) error {
	swept, err := sweep.End(s.Handle.group, why, grace, func() {})
	if err == nil && swept.Stuck != "" {
		return stuckError(swept.Stuck)
	}
	return err
}

// RequestStop requests a stop with the server's own term grace. It continues a guard that a member has
// stopped. A guard may be killed before it reacts. So first the request is recorded, where the next guard
// reads it, and then the present guard gets it.
func (s *Listed) RequestStop() error {
	switch {
	case s.Handle.isTree():
		s.Handle.tree.RecordRequest()
		s.Handle.findNextGuard(s)
		return s.Handle.tree.RequestStop()
	case s.Facts.Guard.PID > 0:
		return s.Handle.group.Attributes().AskToStop()
	}
	s.Handle.group.Attributes().RecordRequest()
	guard := s.Handle.group.Guard().Open()
	if guard < 0 {
		return nil // the server starts, has ended, or gets another guard
	}
	defer unix.Close(guard)
	if s.Handle.group.Managed && group.Frozen(s.Handle.group.Top()) {
		_ = s.Handle.group.Top().Thaw() // systemctl freeze, or a member, has frozen the guard
	}
	return backend.RequestStop(guard)
}

// freezeAll freezes a server or a whole session. After an error the caller thaws those that have stopped. A
// group is frozen once and then waited for: a second time would undo the thaw of another command, which has
// reported that.
func freezeAll(members freeze.Target, within time.Duration) error {
	deadline := time.Now().Add(within)
	_, isTree := members.(*freeze.Tree)
	err := members.Freeze()
	for isTree && err == nil && !group.Frozen(members) && time.Now().Before(deadline) {
		err = members.Freeze() // a member that forks can escape a signal
	}
	if err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	isFrozen, err := freeze.AwaitFrozen(members, deadline)
	switch {
	case err != nil:
		return fmt.Errorf("freeze: %w", err)
	case isFrozen:
		return nil
	case !group.Populated(members):
		return errors.New("freeze: it has ended")
	}
	return fmt.Errorf("freeze: not all processes have stopped, or they were thawed: %w", unix.EAGAIN)
}

// thawAll thaws a server or a whole session, and looks at the result.
func thawAll(members freeze.Target, thaw func() error) error {
	if err := thaw(); err != nil { // also if not all had stopped yet
		return err
	}
	isThawed, err := freeze.AwaitThawed(members, time.Now().Add(thawedWithin))
	if err != nil || isThawed {
		return proc.IgnoreGone(err)
	}
	if above := frozenAbove(members); above != "" {
		return fmt.Errorf("thaw: it stays frozen as long as the group above it is: %s", above)
	}
	return fmt.Errorf("thaw: its processes have stopped again: %w", unix.EAGAIN)
}

// frozenAbove returns the directory of the nearest group above that is frozen as a whole, or "".
func frozenAbove(members freeze.Target) string {
	below, isGroup := members.(*cgroup.Group)
	if !isGroup {
		return ""
	}
	for dir := path.Dir(below.Path()); ; dir = path.Dir(dir) {
		above, err := cgroup.Open(dir)
		if err != nil { // the mount of cgroup2 is below
			return ""
		}
		word, err := above.Read("cgroup.freeze")
		_ = above.Close() // a directory
		if err != nil {   // the root has none
			return ""
		}
		if strings.TrimSpace(string(word)) == "1" {
			return dir
		}
	}
}

// errInside is about an action from within: it would freeze or stop the calling process before it is done.
var errInside = errors.New("this command runs in it: run it from another terminal")

func (s *Listed) checkOutside() error {
	pids, err := s.Handle.Processes()
	if proc.IgnoreGone(err) != nil {
		return err
	}
	isInside := slices.Contains(pids, os.Getpid())
	if s.Handle.isTree() { // which never lists the calling process
		parent := os.Getppid()
		isBelow := parent == s.Launcher || slices.Contains(pids, parent)
		isInside = isBelow || group.TagOf(s.Placed.ID).On(os.Getpid())
	}
	if isInside {
		return errInside
	}
	return nil
}

// Freeze freezes all members until a thaw, and reports whether they were not frozen so before. A stop thaws
// them.
func (s *Listed) Freeze() (isChange bool, err error) {
	if err := s.checkServer(); err != nil {
		return false, err
	}
	if err := s.checkOutside(); err != nil {
		return false, err
	}
	if err := s.checkReach(); err != nil {
		return false, err
	}
	isChange = !s.Handle.isFrozenByPerson()
	if err := s.Handle.awaitRoom(); err != nil {
		return false, err
	}
	if !s.Handle.isTree() {
		if err := s.Handle.group.Payload.SetAttr(idle.AttrHeld, "1"); err != nil {
			return false, fmt.Errorf("freeze: %w", err)
		}
	}
	if err := freezeAll(s.Handle.members, frozenWithin); err != nil {
		if isChange { // otherwise it would be frozen later, for good
			_, _ = s.Thaw() // the first error is the one that matters
		}
		return false, err
	}
	if isChange {
		s.log(journal.Frozen, "frozen")
	}
	return isChange, nil
}

// checkReach fails if processes of the server are in other cgroups: a freeze does not reach them.
func (s *Listed) checkReach() error {
	if s.Handle.isTree() {
		return nil
	}
	inside, err := s.Handle.group.Membership().PIDs()
	if err != nil {
		return proc.IgnoreGone(err)
	}
	all, _ := s.Handle.group.Membership().Tagged().Members() // as far as they can be listed
	all = append(all, s.moved()...)
	var named []string
	slices.Sort(all)
	for _, pid := range slices.Compact(all) {
		name, err := proc.Comm(pid)
		hasExited := err != nil
		if !hasExited && !slices.Contains(inside, pid) {
			named = append(named, fmt.Sprintf("%s (%d)", name, pid))
		}
	}
	if len(named) == 0 {
		return nil
	}
	const most = 5
	listed := strings.Join(named[:min(len(named), most)], ", ")
	return fmt.Errorf("freeze: %s in other cgroups, which a freeze does not reach: %s",
		text.Counted(len(named), "process"), listed)
}

// moved are processes without a tag below the launcher that are not in its cgroup: PAM puts those of su into
// a session, and removes the tag. Children that the launcher had before are in its cgroup, and a guard that
// is its child, with the helpers of that, beside the groups.
func (s *Listed) moved() (pids []int) {
	isLaunched := s.Launcher != 0 && s.Facts.Guard.PID == 0
	if !isLaunched {
		return nil
	}
	pidfd, err := unix.PidfdOpen(s.Launcher, 0)
	if err != nil {
		return nil // it has ended
	}
	defer unix.Close(pidfd)
	client, err := proc.ReadCgroup(s.Launcher)
	if err != nil || !group.Alive(s.Facts.Launcher) {
		return nil
	}
	below, _ := group.Below(freeze.Root{PID: s.Launcher, PIDFD: pidfd}, 0).Members()
	for _, pid := range below {
		where, err := proc.ReadCgroup(pid)
		dir := path.Base(where)
		isBeside := err != nil || where == client || dir == names.GuardsName || names.IsKept(dir)
		if !isBeside && !freeze.TagOn(pid).IsTag() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Thaw lets members run that a person, or a freeze of an idle server, has frozen. It reports whether they
// were frozen.
func (s *Listed) Thaw() (isChange bool, err error) {
	if s.Handle.isSessionFrozen() {
		id := s.SessionID()
		return false, fmt.Errorf("thaw: its session is frozen as a whole: mcpscope thaw %s", id)
	}
	isChange = group.Frozen(s.Handle.members)
	if !s.Handle.isTree() {
		err := s.Handle.group.Payload.RemoveAttr(idle.AttrHeld)
		if err != nil && !errors.Is(err, unix.ENODATA) { // input would thaw an idle server no more
			return false, fmt.Errorf("thaw: %w", err)
		}
	}
	if err := thawAll(s.Handle.members, s.Handle.members.Thaw); err != nil {
		return false, err
	}
	if isChange {
		s.log(journal.Thawed, "thawed")
	}
	return isChange, nil
}

// log writes an event to the journal. Root may have asked for it, so the event has the owner of the server.
func (s *Listed) log(event journal.Event, what string, more ...systemd.JournalField) {
	subject := journal.Subject{
		ID: s.Placed.ID, Name: s.Facts.Name, Client: s.Facts.Client,
		Backend: s.Placed.Backend, Origin: s.Facts.Origin,
	}
	subject.Log(event, systemd.Info, what, append(more, journal.OwnerField(s.UID))...)
}

// LogStop writes an event about a request to the journal, which records the user.
func (s *Listed) LogStop(by string) {
	s.log(journal.StopRequested, "is to stop: "+by, journal.Field("by", by))
}

// Limit sets a limit of a running server, and describes the change. It refuses one that would not apply to
// the memory in use.
func (s *Listed) Limit(l cgroup.Limit) (change string, err error) {
	if err := s.checkServer(); err != nil {
		return "", err
	}
	if s.Handle.isTree() {
		return "", group.ErrNoGroup
	}
	if err := s.Handle.holdsForAll(l); err != nil {
		return "", err
	}
	before := readBefore(s.Handle.group.Payload, l.File)
	killed := s.Handle.group.Limits().Figures().OOMKills
	now, err := s.Handle.group.Limits().Set(l)
	if err != nil {
		if !cgroup.OfMemory(l.File) || group.Populated(s.Handle.group.Payload) {
			return "", err
		}
		now = l.Value // the kernel has killed the server, which had more memory
	}
	change = describeChange(l.File, now, before)
	if f := s.Handle.group.Limits().Figures(); f.EndsWhole && f.OOMKills > killed {
		_, _ = freeze.AwaitEmpty(s.Handle.group.Payload, time.Now().Add(oomWithin)) // Populated asks again
	}
	if !group.Populated(s.Handle.group.Payload) {
		change += "; with that the server has ended"
	}
	return change, nil
}

// readBefore returns a limit that is about to be changed. A file that is not there is no limit: the change
// enables its controller, or fails.
func readBefore(dir *cgroup.Group, file string) string {
	before, err := cgroup.ReadLimit(dir, file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "unknown"
	}
	return before
}

// describeChange has a word for a file without a line, such as io.max without limits.
func describeChange(file, now, before string) string {
	const none = "none"
	return fmt.Sprintf("%s=%s, was %s", file, cmp.Or(now, none), cmp.Or(before, none))
}
