// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/gateway/early"
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
	if err != nil || status.Tgid == w.PID || w.inGroup(status.Tgid) {
		return
	}
	pid := status.Tgid
	argv, missing := arguments(pid), false
	if !w.Blind {
		argv, missing = r.Command(pid)
	}
	if missing || !w.listener.Valid(r) {
		return
	}
	verdict, why := w.Decide(Caller{Stdio: piped, Inherited: stdin == w.Stdin, Argv: argv})
	if verdict == Candidate && w.candidates.speaks(argv) {
		verdict, why = Taken, "its client wrote MCP to the same command before"
	}
	if verdict != Left && linux.Ended(w.gateway) && (verdict == Candidate || !abandoned(pid)) {
		verdict, why = Left, "the gateway has ended"
	}
	if isRun(argv) {
		own.end()
	}
	if own != nil {
		switch {
		case own.pid == pid && verdict == Candidate:
			w.lookAt(own, argv, r)
			return
		case own.pid == pid:
			own.end()
		default:
			w.lookAt(own, nil, nil)
		}
		if w.inGroup(pid) || verdict == Candidate {
			return // by now, or it is part of a candidate
		}
	}
	if verdict == Left {
		if piped { // what a tool runs may be a lot
			w.explain(pid, "left", argv, why)
		}
		return
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	if verdict == Candidate {
		c := &candidate{pid: pid, pidfd: pidfd, stdin: stdin, argv: argv}
		w.candidates.enter(c)
		go w.attend(c)
		return
	}
	own.end()
	w.capture(pid, pidfd, argv, why, r)
	_ = unix.Close(pidfd)
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

// inGroup: it is in a server's group, or has left it and carries its tag.
func (w *watcher) inGroup(pid int) bool {
	soft, _ := proc.FileLocks(pid)
	return freeze.Tag(soft).IsTag() || launcher.In(pid, w.PID)
}

// capture puts a process into a group of its own, with all that it has started. r is its execve that waits
// for an answer; nil for a process that runs.
func (w *watcher) capture(pid, pidfd int, argv []string, why string, r *notify.Request) {
	if len(argv) == 0 { // of 32 bits
		argv = arguments(pid)
	}
	s := w.server(w.serverName(argv))
	s.Notes = append(s.Notes, "a server: "+why)
	take := func() (*launcher.Taken, error) {
		main, _ := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 3) // until the server has ended
		t, err := s.Prepare(client.Child{PID: pid, PIDFD: main, ClientPIDFD: w.gateway})
		if err == nil {
			w.keep(t)
			if err = t.Take(pid); err != nil {
				w.release(t)
			}
		}
		return t, err
	}
	t, err := take()
	if err != nil && linux.Ended(w.gateway) { // it is in no cgroup
		s.Client = pid
		t, err = take()
	}
	if err != nil {
		w.explain(pid, "left", argv, "it can't be contained: "+err.Error())
		return
	}
	w.takeBelow(t, pid, map[int]bool{pid: true})
	theirs := -1
	if s.Stderr == protocol.StderrJournal {
		var err error
		if theirs, err = w.giveJournal(r, pid, pidfd, protocol.DirectoryName(s.Name, t.ID())); err != nil {
			t.SetStderr(protocol.StderrInherit, "stderr is the client's: "+protocol.OneLine(err))
		} else {
			t.SetStderr(protocol.StderrJournal, "")
		}
	}
	w.followed.Go(func() { // the server need not wait for that
		defer closeAll(theirs)
		if err := t.Guide(); err != nil {
			w.explain(pid, "left", argv, "it can't be contained: "+err.Error())
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
		if err == nil && st.PPID == parent && !w.inGroup(pid) && !linux.Ended(pidfd) {
			if err := t.TakeAlso(pid, pidfd); err != nil && !linux.Ended(pidfd) {
				why := "it can't be moved to the group of " + t.ID() + ": " + err.Error()
				w.explain(pid, "left", arguments(pid), why)
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

// server is a server of this gateway; "" for the watcher's own place.
func (w *watcher) server(name string) *Server {
	s := w.Configure(w.Settings, name)
	s.Name, s.Require, s.Report, s.Env, s.Client = name, true, -1, w.env, w.PID
	s.ClientName, s.Executable, s.Guard = nameOf(w.PID, w.Name), early.Executable, int(w.page.GuardPID)
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
	now, why := time.Now().UTC().Format(time.RFC3339), strings.ReplaceAll(why, "\n", ", ")
	line := fmt.Sprintf("%s %d %s %s: %s\n", now, pid, command, what, why)
	_, _ = unix.Write(w.explainTo, []byte(line)) // no process is left for an error
}
