// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// EnterSession makes a session on a backend, with limits, and moves the calling process to it: the agent. It
// returns the path of the session.
func EnterSession(on names.Backend, agent string, limits cgroup.Limits) (session string, err error) {
	s := &Server{Places: Places{Backend: on}, Limits: limits}
	err = s.eachPlaceIn(noSession, func(p backend.Place, _ []error) error {
		made, err := p.NewSession(agent, limits.Files)
		session = made.Path
		return err
	})
	return session, err
}

// OwnSession returns the session that the calling process is in, or "".
func OwnSession() string {
	root, path, err := group.Position(0)
	if err != nil {
		return ""
	}
	defer root.Close()
	session := backend.FindSession(root, path)
	if session == nil {
		return ""
	}
	return session.Path
}

// OpenMemoryEvents opens memory.events of a session, whose changes show as POLLPRI.
func OpenMemoryEvents(session string) (fd int, err error) {
	dir, err := openSession(session)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	return dir.OpenFile("memory.events", unix.O_RDONLY)
}

// ThawSession thaws a session that was frozen as a whole.
func ThawSession(session string) error {
	dir, err := openSession(session)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.ThawAlone()
}

func openSession(session string) (*cgroup.Group, error) {
	root, _, err := group.Position(0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Child(strings.TrimPrefix(session, "/"))
}

// leaveWithin is how long the end of a gateway waits for its session to be empty: processes exit meanwhile.
const leaveWithin = 2 * time.Second

// LeaveSession removes the session of a gateway that has ended. One with processes, which its tools may have
// left, stays: a sweep removes it when they have ended.
func LeaveSession(path string) error {
	return backend.LeaveSession(path, time.Now().Add(leaveWithin))
}

// ErrNested: another gateway is around the calling process, and has no session.
var ErrNested = errors.New(
	"another mcpscope gateway contains its servers: give that one the limits of the session")
