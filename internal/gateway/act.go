// SPDX-License-Identifier: Apache-2.0

package gateway

// actor does what was judged about a process.
type actor struct {
	memberships *memberships
	groups      *groups
	examiner    *examiner
	reporter    *reporter
}

func (a *actor) act(e *execution, j judgement) {
	if e.candidate != nil {
		a.actOnCandidate(e, j)
	}
	if j.process == ignoreProcess {
		return
	}
	if e.candidate != nil && a.memberships.of(e.program.pid) == memberOfServer {
		return // it was moved with the candidate
	}
	if j.process == leaveProcess {
		a.reporter.explanations.write(e.program.pid, "left", e.program.argv, j.why)
		return
	}
	if e.program.pidfd < 0 {
		return // it has ended
	}
	switch j.process {
	case containProcess:
		a.groups.contain(e.program, e.call, j.why)
	case placeProcess:
		a.examiner.place(e.giveProgram(), e.call, j.why)
	case attendProcess:
		a.examiner.startAttending(e.giveProgram())
	}
}

func (a *actor) actOnCandidate(e *execution, j judgement) {
	next := &nextExec{call: e.call, argv: e.program.argv}
	switch j.candidate {
	case acceptCandidate:
		a.examiner.accept(e.candidate, j.why, next)
	case dismissCandidate:
		a.examiner.dismiss(e.candidate)
	case examineCandidate:
		a.examiner.examineUnread(e.candidate)
	case examineNextExec:
		a.examiner.examineNextExec(e.candidate, next)
	case replaceCandidate:
		a.examiner.examineUnread(e.candidate)
		if a.memberships.of(e.program.pid) != memberOfServer {
			a.examiner.dismiss(e.candidate)
		}
	}
}
