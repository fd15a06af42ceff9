// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/gateway/notify"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// heldCall is a call that waits for the watcher's answer: an execve, or the beginning of a program. nil
// stands for a program that runs.
type heldCall struct {
	listener *notify.Listener
	request  *notify.Request
	isBlind  bool // memory of the caller may not be read
}

// command reads what the caller is about to execute, and reports that there is no such file.
func (h *heldCall) command(pid int) (argv []string, isMissing bool) {
	if h.isBlind {
		return arguments(pid), false
	}
	return h.request.Command(pid)
}

// environment reads the variables of the program.
func (h *heldCall) environment(pid int) []string {
	if h == nil || h.isBlind {
		return proc.EnvironmentOf(pid)
	}
	return h.request.Environment(pid)
}

// stillWaits reports whether the facts that were read before are those of the caller.
func (h *heldCall) stillWaits() bool { return h.listener.Valid(h.request) }

func (h *heldCall) replaceDescriptor(fd, source int) error {
	return h.listener.ReplaceDescriptor(h.request, fd, source)
}

// execution is a process that waits in its execve. judge reads the facts alone, and act uses the rest.
type execution struct {
	call      *heldCall
	program   program    // its pidfd is -1 unless it was needed, or if the process has ended
	candidate *candidate // whose stdin the process has, or nil
	facts     facts
}

// giveProgram returns the program, whose pidfd the caller has to close.
func (e *execution) giveProgram() program {
	given := e.program
	e.program.pidfd = -1
	return given
}

func (e *execution) close() { closeAll(e.program.pidfd) }

// reader reads the facts about a process that waits. The process waits for each of them: so only those are
// read that can decide.
type reader struct {
	starters    *starters
	memberships *memberships
	candidates  *candidates
}

// readCommand reads what the rules decide by. stdin is the process's, and stdio reports whether stdin and
// stdout may have other ends.
func (r *reader) readCommand(call *heldCall, stdin file, stdio bool) *execution {
	e := &execution{call: call, program: program{pidfd: -1, stdin: stdin}}
	e.facts.Stdio = stdio
	// The candidate is looked up before the membership, which shows that it was put into a group meanwhile.
	e.candidate = r.candidates.withStdin(stdin)
	status, err := proc.ReadStatus(int(call.request.TID)) // a thread is found by its number, too
	if err != nil {
		e.facts.ignored = processHasEnded
		return e
	}
	pid := status.Tgid
	e.program.pid = pid
	if pid == r.starters.gateway.PID {
		e.facts.ignored = processIsGateway
		return e
	}
	if r.memberships.of(pid) == memberOfServer {
		e.facts.ignored = processIsContained
		return e
	}
	argv, isMissing := call.command(pid)
	if isMissing {
		e.facts.ignored = programIsMissing
		return e
	}
	if !call.stillWaits() { // its pid may be another's by now
		e.facts.ignored = processHasEnded
		return e
	}
	e.program.argv = argv
	e.facts.Argv = argv
	e.facts.Inherited = r.starters.haveStdin(stdin)
	e.facts.hasSpoken = r.candidates.hasSpoken(argv)
	e.facts.candidate = kinshipOf(e.candidate, pid)
	return e
}

func kinshipOf(c *candidate, pid int) kinship {
	switch {
	case c == nil:
		return noCandidate
	case c.group == nil && c.program.pid == pid:
		return isCandidate
	case c.group == nil:
		return sharesCandidate
	case c.program.pid == pid:
		return isPlaced
	}
	return sharesPlaced
}

// readSurroundings reads where the process comes from, for one that is a server by the rules, or may be one.
func (r *reader) readSurroundings(e *execution, byRules Verdict) {
	p := &e.program
	p.client = r.starters.clientOf(p.pid)
	p.stdout = fileAt(p.pid, 1)
	if pidfd, err := unix.PidfdOpen(p.pid, 0); err == nil {
		p.pidfd = pidfd
	}
	if p.client.ended() {
		e.facts.client = clientHasEnded
		if p.client.hasEndedBefore(p.pid) || !p.isAbandonedInExecve() {
			e.facts.client = clientIsAnother
		}
		return
	}
	if byRules != NamedLikeServer || e.facts.candidate.hasGroup() {
		return
	}
	e.facts.isBesideClient = launcher.IsBeside(p.pid, p.client.PID)
	if !e.facts.isBesideClient || p.pidfd < 0 {
		return
	}
	message, _ := mcp.Find(p.unread())
	if message != "" && p.hasClient() {
		e.facts.message = message
	}
}
