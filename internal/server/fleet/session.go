// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// Session is a group of groups that has processes: an agent with all its servers.
type Session struct {
	ID, Name string
	UID      int
	Backend  names.Backend
	Group    string // its directory below the mount of cgroup2
	Frozen   bool   // as a whole

	protocol.Origin // of the agent

	dir *cgroup.Group
}

// Sessions finds those of a choice of users. The caller closes each.
func Sessions(users group.Users) ([]*Session, error) {
	if err := users.CheckVisible(); err != nil {
		return nil, err
	}
	var all []*Session
	visit := group.Visit{
		Users:  users,
		Groups: func(string, *cgroup.Group, []string) error { return nil },
		Session: func(above string, parent *cgroup.Group, dir string) error {
			found, err := openSession(above, parent, dir)
			if found != nil {
				all = append(all, found)
			}
			return proc.IgnoreGone(err)
		},
	}
	err := visit.All()
	slices.SortFunc(all, func(a, b *Session) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return all, err
}

// openSession returns nil for a session without processes, which a sweep removes.
func openSession(above string, parent *cgroup.Group, dir string) (*Session, error) {
	opened, err := parent.Child(dir)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(opened.FD(), &st)
	if err != nil || !group.Populated(opened) {
		_ = opened.Close() // a directory
		return nil, err
	}
	where := path.Join(above, dir)
	return &Session{
		ID: names.SessionID(dir), Name: names.SessionName(dir), UID: int(st.Uid),
		Backend: backend.OfSession(where), Group: where, Frozen: group.Frozen(opened),
		Origin: backend.OriginOfSession(opened), dir: opened,
	}, nil
}

// Close closes its descriptor.
func (s *Session) Close() { _ = s.dir.Close() }

// Contains reports whether a server is in the session.
func (s *Session) Contains(server *Listed) bool { return strings.HasPrefix(server.Group, s.Group+"/") }

// SessionID returns the id of the session that a server is in, or "".
func (s *Listed) SessionID() string {
	if !s.Placed.InSession {
		return ""
	}
	return names.SessionID(path.Base(names.SessionIn(s.Group)))
}

// isSessionFrozen reports whether a server is in a session that is frozen as a whole.
func (h *Handle) isSessionFrozen() bool {
	if h.isTree() || !h.group.Placed.InSession {
		return false
	}
	session, err := cgroup.Open(names.SessionIn(h.group.Payload.Path()))
	if err != nil {
		return false // it has ended
	}
	defer session.Close()
	return group.Frozen(session)
}

// Usage reads the present use of resources by the whole session.
func (s *Session) Usage() (u Usage, err error) {
	u.PIDs, err = s.dir.Members()
	u.CPU, _ = s.dir.CPU() // 0, if it has ended
	u.Memory = s.dir.Number("memory.current")
	u.MemoryPeak = s.dir.Number("memory.peak")
	u.MemoryMax = s.dir.Number("memory.max")
	u.PIDsMax = s.dir.Number("pids.max")
	u.Limits = map[string]string{}
	for _, file := range sessionFiles {
		now, err := cgroup.ReadLimit(s.dir, file) // none without the controller
		if err == nil && !isDefault(file, now) {
			u.Limits[file] = now
		}
	}
	return u, err
}

// isDefault reports whether a file says that there is no limit.
func isDefault(file, now string) bool {
	if strings.HasSuffix(file, ".weight") {
		return now == "100" || now == "default 100"
	}
	return now == "max" || strings.HasPrefix(now, "max ")
}

// sessionFiles are those whose limits are shown.
var sessionFiles = []string{
	"memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max", "cpu.weight", "io.weight",
}

// Agent lists the processes that are of no server, children below their parents: the agent is the first one.
func (s *Session) Agent() ([]Member, error) {
	var all []int
	beside := s.besideServers()
	defer closeGroups(beside)
	for _, dir := range beside {
		pids, err := dir.Members()
		if proc.IgnoreGone(err) != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	return treeOf(all), nil
}

// besideServers opens the directories with the agent, and whatever it has made beside its own. The caller
// closes each.
func (s *Session) besideServers() (dirs []*cgroup.Group) {
	children, _ := s.dir.Children() // none, if it was removed
	for _, name := range children {
		if names.IsGroup(name) || names.IsKept(name) || name == names.GuardsName {
			continue
		}
		if dir, err := s.dir.Child(name); err == nil { // or it has just gone
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Age is how long ago the session was made. The kernel keeps no such time of a directory; that of the agent's
// is as old, unless the agent has made others in it.
func (s *Session) Age() time.Duration {
	oldest, _ := group.Made(s.dir)
	beside := s.besideServers()
	defer closeGroups(beside)
	for _, dir := range beside {
		age, _ := group.Made(dir)
		oldest = max(oldest, age)
	}
	return oldest
}

func closeGroups(dirs []*cgroup.Group) {
	for _, dir := range dirs {
		_ = dir.Close() // a directory
	}
}

// Servers lists those in the session. The caller closes each.
func (s *Session) Servers() (inside []*Listed, err error) {
	all, err := List(s.listable())
	err = group.IgnoreUnread(err) // only a session of that very user may have servers unlisted
	for _, l := range all {
		if s.Contains(l) {
			inside = append(inside, l)
		} else {
			l.Close()
		}
	}
	return inside, err
}

func closeListed(servers []*Listed) {
	for _, l := range servers {
		l.Close()
	}
}

// listable is the choice of users that includes the session's.
func (s *Session) listable() group.Users {
	if os.Getuid() == 0 && s.UID != 0 {
		return group.Everyone()
	}
	return group.CallingUser()
}

func (s *Session) checkOutside() error {
	own, err := proc.ReadCgroup(0)
	if err != nil {
		return err
	}
	if strings.HasPrefix(own, s.Group+"/") {
		return errInside
	}
	return nil
}

// Freeze freezes the agent and all servers until a thaw, and reports whether they were not frozen before. A
// server that is idle by itself stays so.
func (s *Session) Freeze() (isChange bool, err error) {
	if err := s.checkOutside(); err != nil {
		return false, err
	}
	if group.Frozen(s.dir) {
		return false, nil
	}
	servers, err := s.Servers()
	defer closeListed(servers)
	if err != nil {
		return false, err
	}
	for _, l := range servers {
		if err := l.Handle.awaitRoom(); err != nil {
			return false, err
		}
	}
	if err := freezeAll(s.dir, frozenWithin); err != nil {
		_ = s.dir.ThawAlone() // as it was
		return false, err
	}
	return true, nil
}

// Thaw lets the agent and its servers run, and reports whether they were frozen. A server that was frozen by
// itself stays so.
func (s *Session) Thaw() (isChange bool, err error) {
	isChange = group.Frozen(s.dir)
	return isChange, thawAll(s.dir, s.dir.ThawAlone)
}

// AgentGrace is from SIGTERM to SIGKILL for the agent, when its session is stopped.
const AgentGrace = 5 * time.Second

// Stop stops the agent, then its servers, and kills what is left of the session. It waits until nothing is.
func (s *Session) Stop(grace Grace) error {
	if err := s.checkOutside(); err != nil {
		return err
	}
	_ = s.dir.ThawAlone() // killed all the same
	var stuck []freeze.Stuck
	beside := s.besideServers()
	defer closeGroups(beside)
	for _, dir := range beside {
		stop := freeze.Stop{Target: dir, Request: unix.SIGTERM, Grace: grace.shorten(AgentGrace)}
		if stop.Grace == 0 {
			stop.Request = 0
		}
		left, err := stop.Run()
		if proc.IgnoreGone(err) != nil {
			return err
		}
		stuck = freeze.AddStuck(stuck, left)
	}
	if err := s.stopServers(grace); err != nil {
		return err
	}
	left, err := freeze.Stop{Target: s.dir}.Run()
	if proc.IgnoreGone(err) != nil {
		return err
	}
	stuck = freeze.AddStuck(stuck, left)
	if len(stuck) > 0 {
		return stuckError(group.DescribeStuck(stuck))
	}
	return backend.LeaveSession(s.Group, time.Now().Add(frozenWithin))
}

// stopServers stops all at a time.
func (s *Session) stopServers(grace Grace) error {
	servers, err := s.Servers()
	errs := []error{err}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, l := range servers {
		all.Go(func() {
			defer l.Close()
			err := proc.IgnoreGone(l.Stop(grace, ""))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Limit sets a limit of the agent and its servers together, and describes the change.
func (s *Session) Limit(l cgroup.Limit) (change string, err error) {
	isCounted := s.dir.Number("memory.current") != nil
	if cgroup.OfMemory(l.File) && !l.None() && !isCounted {
		return "", &protocol.LimitError{
			Text: fmt.Sprintf("set %s: memory used before now was not accounted to this session", l),
			Step: "start the session with the limit: mcpscope gateway --session-set " + l.String(),
		}
	}
	before := readBefore(s.dir, l.File)
	killed := group.KillsIn(s.dir)
	if l.File == "memory.max" && !l.None() {
		if err := s.preferServers(); err != nil {
			return "", err
		}
	}
	now, err := backend.LimitSession(s.dir, s.Group, l)
	if err != nil {
		return "", err
	}
	change = describeChange(l.File, now, before)
	if more := group.KillsIn(s.dir) - killed; more > 0 {
		change += "; the kernel has killed " + text.Counted(more, "process") + " for that"
	}
	return change, nil
}

// preferServers has the kernel kill a server, whole, before the agent: those of a session without a limit of
// memory are like other processes.
func (s *Session) preferServers() error {
	servers, err := s.Servers()
	errs := []error{err}
	defer closeListed(servers)
	for _, l := range servers {
		if !l.Handle.isTree() && l.clientRuns() {
			errs = append(errs, proc.IgnoreGone(l.Handle.group.Limits().PreferAll(l.Facts.Client.PID)))
		}
	}
	return errors.Join(errs...)
}

// clientRuns reports whether the pid of the client is still its own.
func (s *Listed) clientRuns() bool {
	client := s.ClientProcess()
	return client.PID > 0 && client.Namespace == group.PIDNamespace() && group.Alive(client)
}
