// SPDX-License-Identifier: Apache-2.0

package gateway

import "github.com/mcpscope/mcpscope/internal/name"

// facts are the input of judge. They are read once: see reader.
type facts struct {
	// ignored is a reason to decide nothing. The facts below are not known then.
	ignored ignored
	Caller
	// hasSpoken reports that a client wrote MCP to the same command line before.
	hasSpoken bool
	candidate kinship
	// The facts below are not known of a process that the rules leave.
	client clientState
	// isBesideClient reports that the process is in the cgroup of its client.
	isBesideClient bool
	message        string // MCP that lies unread on the stdin, and that a client wrote; or ""
}

// ignored is a reason to decide nothing about a process.
type ignored int

const (
	notIgnored         ignored = iota
	processHasEnded            // or it does not wait any more
	processIsGateway           // which executes itself again
	processIsContained         // it is a member of a server
	programIsMissing           // as in most directories of a search path
)

// kinship says what a process has to do with the candidate whose stdin it has.
type kinship int

const (
	noCandidate     kinship = iota
	isCandidate             // it is the candidate's own process
	sharesCandidate         // the candidate has started it, as a rule
	isPlaced                // as isCandidate, with a group until it is proven a server
	sharesPlaced            // as sharesCandidate, with such a group
	kinships
)

// hasGroup reports whether the candidate has a group until it is proven a server.
func (k kinship) hasGroup() bool { return k == isPlaced || k == sharesPlaced }

// clientState says what has become of the client of a process.
type clientState int

const (
	clientLives clientState = iota
	clientHasEnded
	clientIsAnother // the starter above it has ended, and another process is its client
)

// judgement has the steps that follow: first one with the candidate whose stdin a process has, then one with
// the process itself.
type judgement struct {
	candidate candidateStep
	process   processStep
	why       string
}

// candidateStep is a step with the candidate whose stdin a process has.
type candidateStep int

const (
	keepCandidate candidateStep = iota
	acceptCandidate
	dismissCandidate
	examineCandidate // a message may lie in its input
	examineNextExec  // the same, and the candidate executes another program
	// replaceCandidate is examineCandidate, then dismissCandidate: the program that its script has started is
	// the server.
	replaceCandidate
)

// processStep is a step with a process that is about to execute a program.
type processStep int

const (
	ignoreProcess  processStep = iota // it goes on, or with its candidate
	leaveProcess                      // it is no server, and that is explained
	attendProcess                     // its input shows whether it is a server
	placeProcess                      // it gets a group until it is proven a server
	containProcess                    // it is a server
)

// decision is a verdict and its reason.
type decision struct {
	verdict Verdict
	why     string
}

// judgeCommand decides by the rules, and by commands that were servers before.
func (r Rules) judgeCommand(f *facts) decision {
	if f.ignored != notIgnored {
		return decision{verdict: NotServer}
	}
	verdict, why := r.Decide(f.Caller)
	if verdict == MayBeServer && f.hasSpoken {
		return decision{verdict: NamedLikeServer, why: "its client wrote MCP to the same command before"}
	}
	return decision{verdict: verdict, why: why}
}

// judge returns the steps for a process that judgeCommand has decided about.
func judge(f *facts, byCommand decision) judgement {
	if f.ignored != notIgnored {
		return judgement{}
	}
	d := judgeClient(f.client, byCommand)
	shared := judgeCandidate(f, d.verdict)
	if shared.stopsHere {
		return judgement{candidate: shared.step, why: d.why}
	}
	process := judgeProcess(f, d)
	process.candidate = shared.step
	return process
}

// judgeClient decides again where the client has ended.
func judgeClient(client clientState, d decision) decision {
	if d.verdict == NotServer || client == clientLives {
		return d
	}
	if client == clientIsAnother {
		return decision{verdict: NotServer, why: "the gateway has ended"}
	}
	if d.verdict == MayBeServer { // its unread input shows it
		return d
	}
	return decision{verdict: IsServer, why: d.why} // the gateway held its stdin until it ended
}

// sharedStdin follows from a stdin that a process has in common with a candidate.
type sharedStdin struct {
	step      candidateStep
	stopsHere bool // nothing else is done: the process is part of the candidate
}

// ofSharedStdin is the table of that. A candidate without a group is left alone once the rules know its next
// program. One with a group keeps it, and the processes that share its stdin, until it is proven or refuted.
var ofSharedStdin = [kinships]map[Verdict]sharedStdin{
	noCandidate: {}, // keepCandidate
	isCandidate: {
		NotServer:       {step: dismissCandidate},
		IsServer:        {step: dismissCandidate},
		MayBeServer:     {step: examineNextExec, stopsHere: true},
		NamedLikeServer: {step: dismissCandidate},
	},
	sharesCandidate: {
		NotServer:       {step: examineCandidate},
		IsServer:        {step: replaceCandidate},
		MayBeServer:     {step: examineCandidate, stopsHere: true},
		NamedLikeServer: {step: replaceCandidate},
	},
	isPlaced: {
		NotServer:       {step: dismissCandidate},
		IsServer:        {step: acceptCandidate, stopsHere: true},
		MayBeServer:     {step: examineNextExec, stopsHere: true},
		NamedLikeServer: {step: examineNextExec, stopsHere: true},
	},
	sharesPlaced: {
		NotServer:       {step: examineCandidate},
		IsServer:        {step: acceptCandidate, stopsHere: true},
		MayBeServer:     {step: examineCandidate, stopsHere: true},
		NamedLikeServer: {step: examineCandidate, stopsHere: true},
	},
}

func judgeCandidate(f *facts, verdict Verdict) sharedStdin {
	if f.candidate != noCandidate && name.IsRun(f.Argv) { // it makes a group for its server
		return sharedStdin{step: dismissCandidate}
	}
	return ofSharedStdin[f.candidate][verdict]
}

// judgeProcess returns the step for a process that is no part of a candidate.
func judgeProcess(f *facts, d decision) judgement {
	switch d.verdict {
	case NotServer:
		if !f.Stdio { // what a tool runs may be a lot
			return judgement{process: ignoreProcess}
		}
		return judgement{process: leaveProcess, why: d.why}
	case IsServer:
		return judgement{process: containProcess, why: d.why}
	case MayBeServer:
		return judgement{process: attendProcess}
	}
	if !f.isBesideClient { // it is in the group of its parent, or where a tool has put it on purpose
		return judgement{process: attendProcess}
	}
	if f.message != "" {
		return judgement{process: containProcess, why: wroteMCP + f.message}
	}
	return judgement{process: placeProcess, why: d.why}
}
