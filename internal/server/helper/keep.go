// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/text"
)

// keeping moves daemons that a person's pattern keeps out of a server: every few seconds, and once more when
// a stop begins. What was not seen by then, or by a SIGKILL of the launcher, ends with the server.
type keeping struct {
	server *Server
	due    time.Time // of the next look; zero for never
}

// begin begins the looks.
func (k *keeping) begin() {
	if k.server.Page.Order.Keeps {
		k.due = time.Now()
	}
}

// deadline is when the next look is due; the zero time for never. A server that is frozen makes no daemon.
func (k *keeping) deadline() time.Time {
	if k.server.Page.ByHelper.Frozen {
		return time.Time{}
	}
	return k.due
}

// lookIfDue looks once if that is due. A server that is being stopped is looked at by request.
func (k *keeping) lookIfDue() {
	if k.server.isStopping() {
		k.due = time.Time{}
	}
	due := k.deadline()
	if due.IsZero() || time.Now().Before(due) {
		return
	}
	k.look()
	k.due = time.Now().Add(policy.KeepEach)
}

// lookAtStop looks until no daemon is found: what was moved may have left another one.
func (k *keeping) lookAtStop() {
	const rounds = 4
	for range rounds {
		if !k.look() {
			return
		}
	}
}

// look moves all that is found, and reports whether there was any.
func (k *keeping) look() (found bool) {
	s := k.server
	pids, err := s.Group.PIDs()
	if err != nil {
		return false // it was removed
	}
	members := map[int]bool{}
	for _, pid := range pids {
		members[pid] = true
	}
	sessions := k.serverSessions()
	for _, pid := range pids {
		st, err := proc.ReadStat(pid)
		if err != nil || !k.isDaemon(st, members, sessions) {
			continue
		}
		called := keptName(s.Config.Keep.Patterns, st)
		if called == "" {
			continue
		}
		// before it leaves: the launcher would wait for its child
		s.Page.ByHelper.HasKept = true
		if k.keep(called, st.PID) {
			found = true
		}
	}
	if found && s.Guard != nil {
		s.Guard.Look()
	}
	return found
}

// serverSessions are the process sessions that the server has not made for a daemon: that of its main
// process, and those that this was born in.
func (k *keeping) serverSessions() map[int]bool {
	s := k.server
	main := s.mainPID()
	sessions := map[int]bool{main: true}
	for _, pid := range []int{main, s.Config.Launcher.PID, s.Config.Client.PID} {
		if session, err := unix.Getsid(pid); err == nil && pid > 0 {
			sessions[session] = true
		}
	}
	return sessions
}

// mainPID is the main process, which may have ended.
func (s *Server) mainPID() int {
	if s.Config.StartedByClient {
		return s.Config.Main.PID
	}
	return int(s.Page.ByLauncher.MainPID)
}

// isDaemon reports whether a member has left the server as a daemon does: it is in a session of its own, and
// its parent is no member, but init or a subreaper, such as the launcher. A program that the server has
// detached is one while its parent lives, too: it leads a session, and nobody writes to its stdin. A process
// that has the client's pipes is the server, whatever else it is.
func (k *keeping) isDaemon(st proc.Stat, members, sessions map[int]bool) bool {
	session, err := unix.Getsid(st.PID)
	if err != nil || st.IsZombie() || st.PID == k.server.mainPID() || sessions[session] {
		return false
	}
	c := k.server.Config
	hasParent := members[st.PPID] || c.StartedByClient && st.PPID == c.Client.PID
	if !hasParent {
		return !k.hasClientPipes(st.PID)
	}
	_, kind := client.Identify(unix.AT_FDCWD, proc.DescriptorPath(st.PID, 0))
	isWrittenTo := kind == unix.S_IFIFO || kind == unix.S_IFSOCK
	return session == st.PID && !isWrittenTo
}

func (k *keeping) hasClientPipes(pid int) bool {
	side := k.server.Config.Side
	if !side.Conveyed {
		return false
	}
	in, _ := client.Identify(unix.AT_FDCWD, proc.DescriptorPath(pid, 0))
	out, _ := client.Identify(unix.AT_FDCWD, proc.DescriptorPath(pid, 1))
	return in == side.File && out == side.Output
}

// keptName is the name of a process that matches a pattern, and "" for any other. It compares what the kernel
// knows of a process: the file that it executes, the script of an interpreter, its name, and its command
// line. A process chooses all but the file.
func keptName(patterns []string, st proc.Stat) string {
	argv := proc.Arguments(st.PID, protocol.CommandMost)
	file, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", st.PID)) // "", of another user's
	file = strings.TrimSuffix(file, " (deleted)")
	line := argv
	if file != "" && len(argv) > 0 {
		line = append([]string{file}, argv[1:]...)
	}
	called := st.Comm
	kind := name.KindOf(file)
	switch {
	case kind == name.Interpreter || kind == name.Shell:
		called = name.Derive(line)
	case file != "":
		called = path.Base(file)
	}
	for _, one := range []string{called, path.Base(file), st.Comm} {
		if glob.Find(patterns, []string{one}) != "" {
			return one
		}
	}
	if glob.Find(patterns, line) != "" || glob.Find(patterns, argv) != "" {
		return called
	}
	return ""
}

// keep moves a daemon, and reports whether it could.
func (k *keeping) keep(called string, pid int) bool {
	s := k.server
	now := time.Now()
	of := protocol.Kept{
		Version: protocol.ProtocolVersion, Name: name.Fit(called),
		Server: s.Config.Name, From: s.Config.Group.ID,
		Client: s.Config.Client, Origin: s.Config.Origin,
		Since: now.UnixNano(),
	}
	if bound := s.Config.Keep.For; bound > 0 {
		of.Until = now.Add(bound).UnixNano()
	}
	kept, err := backend.Keep(s.Group, s.Config, of, pid)
	if err != nil {
		note := fmt.Sprintf("%s could not be kept: %s", of.Name, text.JoinLines(err))
		s.Note(note)
		s.Group.AddNote(note)
		return false
	}
	kept.Close()
	what := fmt.Sprintf("left %s [%d] running, which a pattern keeps", of.Name, pid)
	journal.SubjectOf(s.Config).Log(journal.Kept, systemd.Info, what)
	return true
}
