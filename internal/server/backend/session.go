// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Session is the directory, or the slice of a manager, with the groups of an agent and of all its servers.
type Session struct {
	Backend names.Backend
	Path    string // from the root of the cgroup2 mount
}

// FindSession returns the session that a path is in, or nil. It ignores a directory of another user, which
// may have any name.
func FindSession(root *cgroup.Group, path string) *Session {
	found := names.SessionIn(path)
	if found == "" {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(root.FD(), strings.TrimPrefix(found, "/"), &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || int(st.Uid) != os.Getuid() {
		return nil
	}
	return &Session{Backend: OfSession(found), Path: found}
}

// OfSession derives the backend from where a session is.
func OfSession(at string) names.Backend {
	above := path.Dir(at)
	switch {
	case path.Base(above) == names.Slice && strings.Contains(above, "/user@"):
		return names.SystemdUser
	case path.Base(above) == names.Slice:
		return names.SystemdSystem
	case strings.HasPrefix(above, "/"+names.Slice+"/"):
		return names.Cgroup
	}
	return names.Delegated
}

// aroundSession is the path of a process in a delegated session without that; any other path stays as it is.
func aroundSession(at string) string {
	session := names.SessionIn(at)
	if session != "" && OfSession(session) == names.Delegated {
		return path.Dir(session)
	}
	return at
}

// sliceOf is where a manager makes scopes of servers; s may be nil.
func sliceOf(s *Session) string {
	if s == nil {
		return names.Slice
	}
	return path.Base(s.Path)
}

// AttrClaimed is set on a session after its maker has locked it. As soon as the lock is free, the agent has
// entered the session or its maker has ended.
const AttrClaimed = "user.mcpscope.claimed"

// attrProject and attrConversation are the agent's protocol.Origin.
const (
	attrProject      = "user.mcpscope.project"
	attrConversation = "user.mcpscope.session"
)

// recordOrigin lets filters find a session by where its agent was started. Without attributes no filter lets
// it through.
func recordOrigin(session *cgroup.Group) {
	dir, _ := os.Getwd() // "" for a directory that was removed
	origin := protocol.OriginOf(dir, os.Environ())
	_ = session.SetAttr(attrProject, origin.Project)
	_ = session.SetAttr(attrConversation, origin.Conversation)
}

// OriginOfSession is where the agent of a session was started. Processes of its user may have written any
// text.
func OriginOfSession(session *cgroup.Group) (o protocol.Origin) {
	o.Project, _, _ = session.Attr(attrProject)
	o.Conversation, _, _ = session.Attr(attrConversation)
	return o
}

// NewSession makes a session with limits, and moves the calling process, which becomes the agent, to it.
// After an error nothing of it is left, or only what a sweep removes.
func (p Place) NewSession(gateway string, limits []cgroup.Limit) (Session, error) {
	name := names.NewSession(gateway)
	switch {
	case p.kind() != "":
		return p.newSlice(name, gateway, limits)
	case p.IsTree():
		return Session{}, group.ErrNoGroup
	}
	made, err := p.Above.Mkdir(name, group.GroupMode)
	if err != nil {
		return Session{}, err
	}
	defer made.Close() // which unlocks it
	if err := claimSession(made); err != nil {
		return Session{}, err
	}
	recordOrigin(made)
	if err := p.fillSession(made, limits); err != nil {
		_ = p.Above.Remove(name) // a sweep removes what can't be removed now
		return Session{}, err
	}
	return Session{Backend: p.Backend, Path: strings.TrimPrefix(made.Path(), p.Root.Path())}, nil
}

// claimSession keeps a sweep from removing a session that its agent has not entered yet. Before, and if
// another user has locked the directory, its age does: see isNewborn.
func claimSession(dir *cgroup.Group) error {
	isLocked, err := lockSession(dir)
	if isLocked {
		_ = dir.SetAttr(AttrClaimed, "1") // without it an empty session is removed later
	}
	return err
}

// isNewborn reports whether the maker of a session may not have locked it yet.
func isNewborn(session *cgroup.Group) bool {
	_, isClaimed, err := session.Attr(AttrClaimed)
	if isClaimed && err == nil {
		return false
	}
	age, _ := group.Made(session)
	return age < policy.UnarmedAge
}

// lockSession keeps a sweep from removing a session that its agent has not entered yet. It waits for a sweep
// in the session, which has locked it until the orphans there are stopped. A start that waits before its
// sweep has locked another file (sweep.BeginSweepOfMany). It does not wait for another user's lock.
func lockSession(dir *cgroup.Group) (isLocked bool, err error) {
	isLocked, err = group.LockWithin(dir, os.Getuid(), time.Now().Add(lockWithin))
	if err == nil {
		_, err = dir.Read("cgroup.type") // a sweep may have removed it: that can be locked, too
	}
	return isLocked && err == nil, err
}

const lockWithin = 2 * time.Second

// fillSession sets the limits before there is a process that they could kill.
func (p Place) fillSession(session *cgroup.Group, limits []cgroup.Limit) error {
	owned := group.OwnedAboveDirectory(session, p.Backend)
	for _, l := range limits {
		_, err := cgroup.SetLimit(session, l, owned)
		if err == nil {
			err = checkLimit(session, l)
		}
		if err != nil {
			return group.LimitError(l, err)
		}
	}
	agent, err := session.Mkdir(names.AgentName, group.GroupMode)
	if err != nil {
		return err
	}
	defer agent.Close()
	return agent.Take(os.Getpid())
}

// agentTimeout is from SIGTERM to SIGKILL when the agent's scope is stopped, as systemd has it by default.
const agentTimeout = 90 * time.Second

func (p Place) newSlice(name, gateway string, limits []cgroup.Limit) (s Session, err error) {
	conn, err := systemd.Dial(p.kind(), policy.ManagerWithin)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	files := map[string]string{}
	for _, l := range limits {
		files[l.File] = l.Value
	}
	slice := systemd.Slice{Name: name, Description: "MCP session of " + gateway, Files: files}
	if err := conn.StartSlice(slice); err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			_ = conn.StopUnit(name) // a sweep does it otherwise
		}
	}()
	where, err := conn.Property(name, "Slice", "ControlGroup")
	if err != nil {
		return s, err
	}
	dir, err := p.Root.Child(strings.TrimPrefix(where, "/"))
	if err != nil {
		return s, err
	}
	defer dir.Close() // which unlocks it
	if err := claimSession(dir); err != nil {
		return s, err
	}
	recordOrigin(dir)
	for _, l := range limits {
		if err := checkLimit(dir, l); err != nil {
			return s, group.LimitError(l, err)
		}
	}
	s = Session{Backend: p.Backend, Path: where}
	return s, p.startAgent(conn, s, gateway)
}

// startAgent moves the calling process to a scope in the slice of its session. It can be the main process of
// a service: then the stop of that service ends the scope, too.
func (p Place) startAgent(conn *systemd.Manager, s Session, gateway string) error {
	client := clientUnit(p.Path, p.kind())
	if !strings.HasSuffix(client, ".service") {
		client = "" // a scope that has no process any more ends, and the agent is not to end with it
	}
	scope := systemd.Scope{
		Name: "mcpscope-agent-" + names.NewID() + names.ScopeSuffix, Slice: path.Base(s.Path),
		Description: gateway + ", with its MCP servers beside it", PIDs: []int{os.Getpid()},
		TimeoutStop: agentTimeout, KillSignal: int(unix.SIGTERM), Client: client,
	}
	for try := 0; ; try++ {
		if err := conn.Start(scope); err != nil {
			return fmt.Errorf("move the agent to its session: %w", err)
		}
		where, err := proc.ReadCgroup(0)
		if err != nil {
			return err
		}
		if path.Dir(where) == s.Path {
			return nil
		}
		if try == scopeTries { // as in startScope
			return fmt.Errorf("the agent is not in its session %s, but in %s", s.Path, where)
		}
	}
}

// checkLimit fails unless the kernel has the limit: a manager without the controller says nothing. The kernel
// prints lists and pairs, such as those of io.max and cpu.max, in a way of its own.
func checkLimit(dir *cgroup.Group, l cgroup.Limit) error {
	if err := cgroup.EnableController(dir, l.File, 0); err != nil { // it is not there, which has words
		return err
	}
	now, err := cgroup.ReadLimit(dir, l.File)
	if err != nil {
		return err
	}
	now = strings.TrimPrefix(now, "default ")
	wanted := strings.TrimPrefix(l.Value, "default ")
	isPlain := wanted != "" && strings.Trim(wanted, "0123456789") == "" || wanted == "max"
	if now == wanted || !isPlain {
		return nil
	}
	size, err := strconv.ParseUint(wanted, 10, 64)
	pageSize := uint64(os.Getpagesize())
	if err == nil && cgroup.OfMemory(l.File) && now == strconv.FormatUint(size/pageSize*pageSize, 10) {
		return nil
	}
	return fmt.Errorf("%s has %q in it: %w", path.Join(dir.Path(), l.File), now, errors.ErrUnsupported)
}

// RemoveSession removes a session without processes. It leaves one alone that has some, that is being made,
// or that another user's manager has made. above is the path of its parent.
func RemoveSession(above string, parent *cgroup.Group, dir string) error {
	session, err := parent.Child(dir)
	if err != nil {
		return proc.IgnoreGone(err)
	}
	defer session.Close()
	var st unix.Stat_t
	_ = unix.Fstat(session.FD(), &st) // it can't fail: the directory is open
	_, err = group.LockUnlessForeign(session, int(st.Uid))
	if err != nil { // its agent is about to enter it
		return nil
	}
	if isNewborn(session) {
		return nil
	}
	return removeLocked(session, above, parent, dir)
}

// removeLocked is RemoveSession for one that the caller has locked, unless another user has.
func removeLocked(session *cgroup.Group, above string, parent *cgroup.Group, dir string) error {
	if group.Populated(session) {
		return nil
	}
	kind := managers[OfSession(path.Join(above, dir))]
	if kind == "" {
		return proc.IgnoreGone(parent.Remove(dir))
	}
	if !isOwnManager(kind, above) {
		return nil
	}
	conn, err := systemd.Dial(kind, policy.ManagerWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	isUnit, err := isUnitOf(conn, path.Join(above, dir))
	if err != nil || !isUnit {
		return err
	}
	errStop := conn.StopUnit(dir)
	err = proc.IgnoreGone(parent.Remove(dir)) // the manager has done so, unless it has lost the unit
	if err != nil {
		return errors.Join(errStop, err)
	}
	return nil
}

// isUnitOf reports whether a directory is that of the manager's slice of that name, or of none any more.
// Another user can make a directory that is called like any session.
func isUnitOf(conn *systemd.Manager, at string) (bool, error) {
	where, err := conn.Property(path.Base(at), "Slice", "ControlGroup")
	return where == at || where == "", err
}

// LimitSession sets a limit of a session, and returns what its file has then.
func LimitSession(dir *cgroup.Group, at string, l cgroup.Limit) (now string, err error) {
	from := OfSession(at)
	kind := managers[from]
	if kind == "" {
		now, err = cgroup.SetLimit(dir, l, group.OwnedAboveDirectory(dir, from))
		if err != nil {
			return "", group.LimitError(l, err)
		}
		return now, nil
	}
	if !isOwnManager(kind, at) {
		return "", errors.New("only its user can do that: its manager would undo it")
	}
	conn, err := systemd.Dial(kind, policy.ManagerWithin)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	isUnit, err := isUnitOf(conn, at)
	if err != nil {
		return "", err
	}
	if !isUnit {
		return "", fmt.Errorf("%s is not a session of its manager: %w", at, unix.EPERM)
	}
	if err := conn.LimitSlice(path.Base(at), l.File, l.Value); err != nil {
		return "", err
	}
	for until := time.Now().Add(appliedWithin); ; { // the manager answers before it writes
		err := checkLimit(dir, l)
		if err == nil {
			return cgroup.ReadLimit(dir, l.File)
		}
		if time.Now().After(until) {
			return "", group.LimitError(l, err)
		}
		time.Sleep(time.Millisecond)
	}
}

const appliedWithin = time.Second

func isOwnManager(kind systemd.Kind, above string) bool {
	if kind == systemd.System {
		return os.Getuid() == 0
	}
	uid, isOfUser := systemd.ManagerUser(above)
	return isOfUser && uid == os.Getuid()
}

// LeaveSession removes a session when it has no process any more, which it waits for.
func LeaveSession(at string, until time.Time) error {
	root, _, err := group.Position(0)
	if err != nil {
		return err
	}
	defer root.Close()
	parent, err := root.Child(strings.TrimPrefix(path.Dir(at), "/"))
	if err != nil {
		return proc.IgnoreGone(err)
	}
	defer parent.Close()
	session, err := parent.Child(path.Base(at))
	if err != nil {
		return proc.IgnoreGone(err)
	}
	defer session.Close()
	if _, err := freeze.AwaitEmpty(session, until); err != nil {
		return proc.IgnoreGone(err)
	}
	if _, err := lockSession(session); err != nil { // a sweep still stops orphans in it
		return proc.IgnoreGone(err)
	}
	return removeLocked(session, path.Dir(at), parent, path.Base(at))
}
