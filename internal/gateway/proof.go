// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// A name proves nothing: `mcp_report.py` in a pipeline, build-mcp.sh and mcp-cli have the word, too. So a
// program that is known by its name alone gets a group, for it may be gone from its client's process tree
// before it is proven a server, and nothing else. It has no limits, is not listed, and nothing stops it:
// neither the end of its stdin, nor that of its main process or of the gateway, nor a sweep. The first
// message of MCP that its client writes makes it a server. So does the end of the gateway, if that held its
// stdin until then.

// place puts a program into a group of its own until it is proven a server, or left alone. It closes the
// program's pidfd at the end. call is as in groups.contain.
func (x *examiner) place(p program, call *heldCall, why string) {
	s, _ := x.groups.serverOf(&p, call)
	s.Gateway.Unproven = true
	t, err := x.groups.newGroup(s, &p)
	if err != nil {
		x.groups.reportOutside(p.pid, p.argv, err)
		closeAll(p.pidfd)
		return
	}
	outcome := fmt.Sprintf("placed in %s (%s)", t.ID(), t.Backend())
	x.reporter.explanations.write(p.pid, outcome, p.argv, why)
	x.awaitProof(p, t)
}

// resume goes on with a program that the watcher before has placed.
func (x *examiner) resume(t *launcher.TakenServer) {
	pid, main := t.Main()
	pidfd, err := unix.FcntlInt(uintptr(main), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil { // it has ended
		x.following.Go(func() { x.servers.release(t) })
		return
	}
	x.awaitProof(program{
		pid: pid, pidfd: pidfd, stdin: fileAt(pid, 0), stdout: fileAt(pid, 1),
		argv: arguments(pid), client: x.groups.starters.find(t.Config.Facts.Client),
	}, t)
}

// awaitProof waits for the proof that a program with a group is a server.
func (x *examiner) awaitProof(p program, t *launcher.TakenServer) {
	c := &candidate{program: p, group: t}
	x.candidates.addGroup(t.ID())
	c.lookForHolder()
	c.expectClient()
	x.candidates.enter(c)
	// The thread that copies the first message waits before the program runs, however busy the machine is.
	input := newPeeker()
	input.reopen(&c.program)
	x.attended.Add(1)
	x.following.Go(func() { x.attend(c, input) })
}

// conclude decides about a candidate when there is nothing more to be seen. At the end of the gateway its
// stdin is closed and the program may end, in any order.
func (x *examiner) conclude(c *candidate, why string) {
	if c.group == nil || !c.program.client.exits() {
		x.leaveAlone(c, why)
		return
	}
	if c.wasHeldByGateway() {
		x.accept(c, "the gateway held its stdin until it ended", nil)
		return
	}
	if c.program.client.serviceIsGone() {
		x.accept(c, "systemd has stopped the gateway's service", nil)
		return
	}
	x.leaveAlone(c, why)
}
