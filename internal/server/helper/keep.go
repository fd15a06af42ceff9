// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"errors"
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
	pids, err := s.Group.Membership().PIDs()
	if err != nil {
		return false // it was removed
	}
	members := map[int]bool{}
	for _, pid := range pids {
		members[pid] = true
	}
	sessions := s.ownSessions()
	for _, pid := range pids {
		st, err := proc.ReadStat(pid)
		if err != nil || !k.isDaemon(st, members, sessions) {
			continue
		}
		its := readProgram(st)
		called := its.matched(s.Config.Keep.Patterns)
		if called == "" {
			continue
		}
		// before it leaves: the launcher would wait for its child
		s.Page.ByHelper.Daemons.HasKept = true
		if k.keep(called, st.PID) {
			found = true
		}
	}
	if found && s.Guard != nil {
		s.Guard.Look()
	}
	return found
}

// ownSessions are the process sessions that the server has not made for a daemon: that of its main process,
// and those that this was born in.
func (s *Server) ownSessions() map[int]bool {
	main := s.mainPID()
	sessions := map[int]bool{main: true, int(s.Page.ByLauncher.Session): true}
	for _, pid := range []int{main, s.Config.Facts.Launcher.PID, s.Config.Facts.Client.PID} {
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
	hasParent := members[st.PPID] || c.StartedByClient && st.PPID == c.Facts.Client.PID
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

// program is what the kernel knows of a process. A process chooses all of it but the file.
type program struct {
	file  string // that it executes; "" of another user's
	comm  string
	argv  []string
	title []string // the words that it has written in the place of argv, as npm does
}

func readProgram(st proc.Stat) program {
	file, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", st.PID)) // "", of another user's
	file = strings.TrimSuffix(file, " (deleted)")
	return newProgram(file, st.Comm, proc.Arguments(st.PID, protocol.CommandMost))
}

func newProgram(file, comm string, argv []string) program {
	if title := titleIn(argv); title != nil {
		return program{file: file, comm: comm, title: title}
	}
	return program{file: file, comm: comm, argv: argv}
}

// titleIn returns the words of a title, and nil for arguments. A title is one text that begins with a name,
// and zeros up to where the last argument ended.
func titleIn(argv []string) []string {
	if len(argv) == 0 || strings.Join(argv[1:], "") != "" {
		return nil
	}
	words := strings.Fields(argv[0])
	isOneWord := len(argv) == 1 && len(words) < 2 // a program without arguments
	if len(words) == 0 || isOneWord || strings.Contains(words[0], "/") {
		return nil
	}
	return words
}

// line is the command line with the file in front.
func (p *program) line() []string {
	if p.file == "" || len(p.argv) == 0 {
		return p.argv
	}
	return append([]string{p.file}, p.argv[1:]...)
}

// name is what a person calls it: the file, or of an interpreter the script, or the title.
func (p *program) name() string {
	kind := name.KindOf(p.file)
	isInterpreter := kind == name.Interpreter || kind == name.Shell
	switch {
	case isInterpreter && p.title != nil:
		return strings.TrimSuffix(p.title[0], ":") // gunicorn: master [app]
	case isInterpreter:
		return name.Derive(p.line())
	case p.file != "":
		return path.Base(p.file)
	}
	return p.comm
}

// matched is the name by which a pattern matches it, and "" if none does. The patterns are compared with the
// file, the script, the name of the process, and the command line or the title.
func (p *program) matched(patterns []string) string {
	called := p.name()
	for _, one := range []string{called, p.comm} {
		if glob.Find(patterns, []string{one}) != "" {
			return one
		}
	}
	line := p.line()
	files := [][]string{{p.file}, {name.Script(line)}} // with and without directories
	for _, words := range append(files, line, p.argv, p.title) {
		isKnown := len(words) > 0 && words[0] != ""
		if isKnown && glob.Find(patterns, words) != "" {
			return called
		}
	}
	return ""
}

// keep moves a daemon, and reports whether it could.
func (k *keeping) keep(called string, pid int) bool {
	s := k.server
	now := time.Now()
	of := protocol.Kept{
		Version: protocol.ProtocolVersion, Name: name.Fit(called),
		Server: s.Config.Facts.Name, From: s.Config.Group.ID,
		Client: s.Config.Facts.Client, Origin: s.Config.Facts.Origin,
		Since: now.UnixNano(),
	}
	if bound := s.Config.Keep.For; bound > 0 {
		of.Until = now.Add(bound).UnixNano()
	}
	kept, err := backend.Keep(s.Group, s.Config, of, pid)
	if errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		note := fmt.Sprintf("%s could not be kept: %s", of.Name, text.JoinLines(err))
		s.Note(note)
		s.Group.Attributes().AddNote(note)
		return false
	}
	kept.Close()
	what := fmt.Sprintf("left %s [%d] running, which a pattern keeps", of.Name, pid)
	journal.SubjectOf(s.Config).Log(journal.Kept, systemd.Info, what)
	return true
}
