// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/gateway/early"
	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// consider decides about one process before it goes on.
func (w *watcher) consider(r *notify.Request, stdin file, piped bool) {
	defer w.listener.Continue(r)
	// Its candidate has the same stdin, and has started it or is itself. This is before the check of its
	// group, which shows a capture meanwhile.
	own := w.candidates.of(stdin)
	status, err := proc.ReadStatus(int(r.TID)) // a thread is found by its number, too
	if err != nil || status.Tgid == w.starters.gateway.PID {
		return
	}
	pid := status.Tgid
	if w.groupOf(pid) == ofServer {
		return
	}
	argv := arguments(pid)
	missing := false
	if !w.Blind {
		argv, missing = r.Command(pid)
	}
	if missing || !w.listener.Valid(r) {
		return
	}
	client := w.starters.gateway
	verdict, why := w.judge(stdin, piped, argv)
	if verdict != Left {
		client = w.above(pid)
	}
	if verdict != Left && client.ended() {
		verdict, why = judgeAfter(client, pid, verdict, why)
	}
	if own != nil && w.considerPart(own, pid, verdict, why, argv, r) {
		return
	}
	c := &candidate{pid: pid, client: client, stdin: stdin, stdout: fileAt(pid, 1), argv: argv}
	w.act(c, verdict, why, piped, r)
}

// judge is Decide, and knows commands that the watcher has seen before.
func (w *watcher) judge(stdin file, piped bool, argv []string) (verdict Verdict, why string) {
	caller := Caller{Stdio: piped, Inherited: w.starters.hasStdin(stdin), Argv: argv}
	verdict, why = w.Decide(caller)
	if verdict == Candidate && w.candidates.speaks(argv) {
		verdict = Named
		why = "its client wrote MCP to the same command before"
	}
	return verdict, why
}

// judgeAfter decides about a process whose client has ended.
func judgeAfter(client *starter, pid int, verdict Verdict, why string) (Verdict, string) {
	if startedAfter(client, pid) || !abandoned(pid) {
		return Left, "the gateway has ended"
	}
	if verdict == Candidate { // its unread input shows it
		return verdict, why
	}
	return Taken, why // the gateway held its stdin until it ended
}

// considerPart decides about a process that has the stdin of a candidate: it is the candidate's own process,
// or one that this has started. It returns true if nothing else must be done.
func (w *watcher) considerPart(
	own *candidate, pid int, verdict Verdict, why string, argv []string, r *notify.Request,
) (decided bool) {
	switch {
	case runsServer(argv): // it makes a group for its server
		w.dismiss(own)
	case own.group != nil && verdict == Taken:
		w.accept(own, why, argv, r)
		return true
	case own.pid != pid:
		w.lookAt(own, nil, nil)
	case verdict == Candidate || own.group != nil && verdict == Named:
		w.lookAt(own, argv, r)
		return true
	default:
		w.dismiss(own)
	}
	if verdict == Candidate || w.groupOf(pid) == ofServer {
		return true // by now, or it is part of a candidate
	}
	if verdict == Named && own.group != nil {
		return true // it stays in the candidate's group
	}
	if verdict == Named || verdict == Taken { // the program that its script has started is the server
		w.dismiss(own)
	}
	return false
}

// act does what was decided about a process that is no part of a candidate.
func (w *watcher) act(c *candidate, verdict Verdict, why string, piped bool, r *notify.Request) {
	if verdict == Left {
		if piped { // what a tool runs may be a lot
			w.explain(c.pid, "left", c.argv, why)
		}
		return
	}
	if verdict == Named && !launcher.IsBeside(c.pid, c.client.PID) {
		verdict = Candidate // it is in the group of its parent, or where a tool has put it on purpose
	}
	pidfd, err := unix.PidfdOpen(c.pid, 0)
	if err != nil {
		return // it has ended
	}
	c.pidfd = pidfd
	if verdict == Named {
		message, _ := mcp.Find(c.unread())
		if message != "" && w.hasClient(c) {
			verdict = Taken
			why = wrote + message
		}
	}
	switch verdict {
	case Taken:
		w.capture(c, why, r)
		_ = unix.Close(pidfd) // a pidfd
	case Named:
		w.place(c, why, r)
	default:
		if !w.mayAttend() {
			_ = unix.Close(pidfd) // a pidfd
			w.sayUnseen("the user may have too few processes (ulimit -u)")
			return
		}
		w.candidates.enter(c)
		go w.attend(c, newPeeker())
	}
}

// startedAfter reports whether a process is younger than the end of a starter, which so never was its client:
// a script that the starter has left has started it. The kernel counts starts in ticks. In the tick of the
// end, the process has a parent below the gateway that made its stdin.
func startedAfter(client *starter, pid int) bool {
	const tick = int64(time.Second / 100) // USER_HZ
	st, err := proc.ReadStat(pid)
	ended := client.endedAt.Load() / tick // 0, if the watcher has not noticed it yet
	started := int64(st.StartTime)
	if err != nil || ended != 0 && started != ended {
		return err == nil && started > ended
	}
	parent, err := proc.ReadStatus(st.PPID)
	isBelow := err == nil && parent.Filtered // init and managers, which adopt orphans, have no filter
	return isBelow && fileAt(st.PPID, 0) != fileAt(pid, 0)
}

// abandoned: the gateway was its client. Servers have each other's pipes until their execve. A program of a
// tool that the gateway has left has a client.
func abandoned(pid int) bool {
	for range 20 {
		if client.Closed(pid, 0) && client.Closed(pid, 1) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// membership says whose group a process is in.
type membership int

const (
	ofNone     membership = iota
	ofServer              // or it has left that group and carries its tag
	ofUnproven            // of a program that is known by its name alone
)

func (w *watcher) groupOf(pid int) membership {
	soft, _ := proc.FileLocks(pid)
	if freeze.Tag(soft).IsTag() {
		return ofServer
	}
	id := launcher.GroupOf(pid, w.home())
	switch {
	case id == "":
		return ofNone
	case w.candidates.hasGroup(id):
		return ofUnproven
	}
	return ofServer
}

// home is the cgroup of the gateway, or the one in which that was before it ended.
func (w *watcher) home() string {
	now, _ := proc.ReadCgroup(w.starters.gateway.PID) // "", if it has ended
	return cmp.Or(now, w.cgroup)
}

// newGroup puts a process into a group of its own, with all that it has started.
func (w *watcher) newGroup(s *Server, c *candidate) (*launcher.Taken, error) {
	pid := c.pid
	main, err := unix.FcntlInt(uintptr(c.pidfd), unix.F_DUPFD_CLOEXEC, 3) // until the server has ended
	if err != nil {
		return nil, fmt.Errorf("copy a pidfd: %w", err)
	}
	t, err := s.Prepare(client.Child{PID: pid, PIDFD: main, ClientPIDFD: c.client.pidfd})
	if err != nil {
		return nil, err
	}
	err = w.keep(t)
	if err == nil {
		err = t.Take(pid)
	}
	if err != nil {
		w.release(t)
		return nil, err
	}
	w.takeBelow(t, pid, map[int]bool{pid: true})
	return t, nil
}

// newGroupFor is newGroup, also for a process whose client has just ended and is in no cgroup any more.
func (w *watcher) newGroupFor(s *Server, c *candidate) (*launcher.Taken, error) {
	if err := w.room(); err != nil {
		return nil, err
	}
	t, err := w.newGroup(s, c)
	if err != nil && c.client.ended() {
		s.Client = c.pid
		t, err = w.newGroup(s, c)
	}
	return t, err
}

// capture makes a process a server. r is its execve that waits for an answer; nil for a process that runs.
func (w *watcher) capture(c *candidate, why string, r *notify.Request) {
	s := w.serverOf(c, r)
	s.Notes = append(s.Notes, "a server: "+why)
	t, err := w.newGroupFor(s, c)
	if err != nil {
		w.sayOutside(c.pid, c.argv, err)
		return
	}
	w.sayUnlimited(t, s)
	theirs := -1
	if s.Stderr == protocol.StderrJournal {
		name := protocol.DirectoryName(s.Name, t.ID())
		if theirs, err = w.giveJournal(r, c.pid, c.pidfd, name); err != nil {
			t.SetStderr(protocol.StderrInherit, "stderr is the client's: "+protocol.OneLine(err))
		} else {
			t.SetStderr(protocol.StderrJournal, "")
		}
	}
	w.follow(t, c, why, theirs)
}

const wrote = "its client writes MCP: "

// follow watches a server until it has ended. The server need not wait for that. theirs is a descriptor to
// keep as long, or -1.
func (w *watcher) follow(t *launcher.Taken, c *candidate, why string, theirs int) {
	pid := c.pid
	argv := c.argv
	w.followed.Go(func() {
		defer closeAll(theirs)
		if err := t.Guide(); err != nil {
			w.sayOutside(pid, argv, err)
			w.release(t)
			return
		}
		w.explain(pid, fmt.Sprintf("taken as %s (%s)", t.ID(), t.Backend()), argv, why)
		w.live(t)
	})
}

// takeBelow moves the processes that a member has started. Their later children are born in the group.
func (w *watcher) takeBelow(t *launcher.Taken, parent int, seen map[int]bool) {
	children, _ := proc.Children(parent) // none, if it has ended
	for _, pid := range children {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if seen[pid] || err != nil {
			closeAll(pidfd)
			continue
		}
		seen[pid] = true
		st, err := proc.ReadStat(pid) // its pid may be another's, as long as there is no pidfd
		membership := w.groupOf(pid)
		if err == nil && st.PPID == parent && membership != ofServer && !linux.Ended(pidfd) {
			if membership == ofUnproven {
				w.candidates.dropGroup(pid)
			}
			if err := t.TakeAlso(pid, pidfd); err != nil && !linux.Ended(pidfd) {
				why := fmt.Errorf("it can't be moved to the group of %s: %w", t.ID(), err)
				w.sayOutside(pid, arguments(pid), why)
			}
			w.takeBelow(t, pid, seen)
		}
		_ = unix.Close(pidfd)
	}
}

// giveJournal replaces the stderr of a process that waits in its execve. theirs is a copy of the old one, or
// -1: for a client that reads it, its end would be the server's.
func (w *watcher) giveJournal(r *notify.Request, pid, pidfd int, identifier string) (theirs int, err error) {
	if r == nil {
		return -1, errors.New("the server ran already when it was recognized")
	}
	stream, err := systemd.JournalStream(identifier, systemd.Info)
	if err != nil {
		return -1, err
	}
	defer unix.Close(stream)
	theirs = -1
	if own := fileAt(pid, 2); own != fileAt(pid, 0) && own != fileAt(pid, 1) { // those end with the server
		theirs, _ = unix.PidfdGetfd(pidfd, 2, 0) // -1 without the right to ptrace
	}
	return theirs, w.listener.Replace(r, 2, stream)
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd) // a copy, or a pidfd
		}
	}
}

// serverOf is the server that a candidate is, or executes by r.
func (w *watcher) serverOf(c *candidate, r *notify.Request) *Server {
	if len(c.argv) == 0 { // of 32 bits
		c.argv = arguments(c.pid)
	}
	made := recipe{argv: c.argv}
	made.dir, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", c.pid)) // none, if it can't be read
	var env []string
	if r != nil && !w.Blind {
		env = r.Environment(c.pid)
	} else {
		env = proc.EnvironmentOf(c.pid)
	}
	made.variables = difference(env, w.environmentOf(c.client))
	s := w.server(w.serverName(made, c.client.name()), c.client)
	s.Recipe = made.number()
	s.Origin = protocol.OriginOf(made.dir, env)
	return s
}

// environmentOf is the environment that a starter began with.
func (w *watcher) environmentOf(s *starter) []string {
	if s == w.starters.gateway {
		return w.env
	}
	return proc.EnvironmentOf(s.PID)
}

// server is a server of that client; its name is "" for the watcher's own place.
func (w *watcher) server(name string, client *starter) *Server {
	s := w.Configure(w.Settings, name)
	s.Name = name
	s.Client = client.PID
	s.ClientName = client.name()
	s.Require = true
	s.Report = -1
	s.Env = w.env
	s.Executable = early.Executable
	s.Guard = int(w.page.ByGuard.GuardPID)
	s.Hub = w.hub
	s.StrictLimits = !s.Limits.BestEffort
	s.Limits.BestEffort = true // without them it is contained at least
	return s
}

// explain appends a line about a child. Arguments are quoted: they may be anything. Only the first of them
// is written, for keys are among the others.
func (w *watcher) explain(pid int, what string, argv []string, why string) {
	if w.explainTo < 0 {
		return
	}
	command := "?"
	if len(argv) > 0 {
		command = fmt.Sprintf("%.80q", argv[0])
	}
	now := time.Now().UTC().Format(time.RFC3339)
	why = strings.ReplaceAll(why, "\n", ", ")
	line := fmt.Sprintf("%s %d %s %s: %s\n", now, pid, command, what, why)
	_, _ = unix.Write(w.explainTo, []byte(line)) // no process is left for an error
}
