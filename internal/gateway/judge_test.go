// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"
)

// judgeRules know a configured server, a match and an exception.
var judgeRules = Rules{
	Match:      []string{"matched"},
	Except:     []string{"excepted"},
	Configured: []Configured{{Name: "time", File: "f", Argv: []string{"uvx", "time"}}},
}

// piped has the facts of a process whose stdin and stdout are pipes, and whose client lives.
func piped(line string) facts {
	return facts{Caller: Caller{Stdio: true, Argv: strings.Fields(line)}}
}

// Each exit of the judgement has a row, with all that is done and the reason that people read.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what   string
		facts  facts
		change func(*facts)
		want   judgement
	}{
		{"it has ended", piped("x"), func(f *facts) { f.ignored = processHasEnded }, judgement{}},
		{"the gateway itself", piped("matched"), func(f *facts) { f.ignored = processIsGateway }, judgement{}},
		{"a member of a server", piped("matched"), func(f *facts) { f.ignored = processIsContained }, judgement{}},
		{"no such program", piped("matched"), func(f *facts) { f.ignored = programIsMissing }, judgement{}},

		// by the command line and the descriptors
		{"mcpscope run", piped("mcpscope run -- x"), nil,
			judgement{process: leaveProcess, why: "mcpscope run contains it"}},
		{"an exception", piped("excepted"), nil, judgement{process: leaveProcess, why: `except "excepted"`}},
		{"a configured server", piped("uvx time"), nil,
			judgement{process: containProcess, why: `configured as "time" in f`}},
		{"a match", piped("matched"), nil, judgement{process: containProcess, why: `match "matched"`}},
		{"a match without pipes", piped("matched"), func(f *facts) { f.Stdio = false },
			judgement{process: containProcess, why: `match "matched"`}},
		{"a configured server without pipes", piped("uvx time"), func(f *facts) { f.Stdio = false }, judgement{}},
		{"a tool without pipes", piped("x"), func(f *facts) { f.Stdio = false }, judgement{}},
		{"it reads its program", piped("python3"), nil,
			judgement{process: leaveProcess, why: "its stdin is the program that it runs"}},
		{"the gateway's stdin", piped("x"), func(f *facts) { f.Inherited = true },
			judgement{process: leaveProcess, why: "its stdin is the gateway's own"}},
		{"any other program", piped("x"), nil, judgement{process: attendProcess}},

		// by its name, or the same command before
		{"a name", piped("my-mcp"), func(f *facts) { f.isBesideClient = true },
			judgement{process: placeProcess, why: `its name is "my-mcp"`}},
		{"a name, and its client speaks", piped("my-mcp"), func(f *facts) {
			f.isBesideClient = true
			f.message = "initialize"
		}, judgement{process: containProcess, why: "its client writes MCP: initialize"}},
		{"a name in another cgroup", piped("my-mcp"), nil, judgement{process: attendProcess}},
		{"a command that was a server", piped("node x"), func(f *facts) {
			f.hasSpoken = true
			f.isBesideClient = true
		}, judgement{process: placeProcess, why: "its client wrote MCP to the same command before"}},
		{"such a command in another cgroup", piped("node x"), func(f *facts) { f.hasSpoken = true },
			judgement{process: attendProcess}},
		{"such a command that reads its program", piped("python3"), func(f *facts) { f.hasSpoken = true },
			judgement{process: leaveProcess, why: "its stdin is the program that it runs"}},

		// its client has ended
		{"a server of a gateway that has ended", piped("uvx time"), func(f *facts) { f.client = clientHasEnded },
			judgement{process: containProcess, why: `configured as "time" in f`}},
		{"a name below a gateway that has ended", piped("my-mcp"), func(f *facts) { f.client = clientHasEnded },
			judgement{process: containProcess, why: `its name is "my-mcp"`}},
		{"any program of a gateway that has ended", piped("x"), func(f *facts) { f.client = clientHasEnded },
			judgement{process: attendProcess}},
		{"a tool that the gateway has left", piped("x"), func(f *facts) { f.client = clientIsAnother },
			judgement{process: leaveProcess, why: "the gateway has ended"}},
		{"a server of such a tool", piped("matched"), func(f *facts) { f.client = clientIsAnother },
			judgement{process: leaveProcess, why: "the gateway has ended"}},
		{"the same without pipes", piped("matched"), func(f *facts) {
			f.client = clientIsAnother
			f.Stdio = false
		}, judgement{}},
		{"an exception after the gateway's end", piped("excepted"),
			func(f *facts) { f.client = clientIsAnother },
			judgement{process: leaveProcess, why: `except "excepted"`}},
	} {
		if c.change != nil {
			c.change(&c.facts)
		}
		if got := judge(&c.facts, judgeRules.judgeCommand(&c.facts)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// A process that has the stdin of a candidate is part of that, or ends it. Each verdict by the rules has a
// row for each kinship.
func TestJudgeCandidate(t *testing.T) {
	const (
		excepted   = "excepted"
		wrapped    = "mcpscope run -- x"
		configured = "uvx time"
		named      = "my-mcp"
		other      = "x"
	)
	left := judgement{process: leaveProcess, why: `except "excepted"`}
	leftWrapped := judgement{process: leaveProcess, why: "mcpscope run contains it"}
	contained := judgement{process: containProcess, why: `configured as "time" in f`}
	placed := judgement{process: placeProcess, why: `its name is "my-mcp"`}
	part := judgement{}
	partOfServer := judgement{why: contained.why}
	partOfPlaced := judgement{why: placed.why}
	for _, c := range []struct {
		kinship kinship
		line    string
		step    candidateStep
		process judgement
	}{
		{noCandidate, excepted, keepCandidate, left},
		{noCandidate, wrapped, keepCandidate, leftWrapped},
		{noCandidate, configured, keepCandidate, contained},
		{noCandidate, named, keepCandidate, placed},
		{noCandidate, other, keepCandidate, judgement{process: attendProcess}},

		{isCandidate, excepted, dismissCandidate, left},
		{isCandidate, wrapped, dismissCandidate, leftWrapped},
		{isCandidate, configured, dismissCandidate, contained},
		{isCandidate, named, dismissCandidate, placed},
		{isCandidate, other, examineNextExec, part},

		{sharesCandidate, excepted, examineCandidate, left},
		{sharesCandidate, wrapped, dismissCandidate, leftWrapped},
		{sharesCandidate, configured, replaceCandidate, contained},
		{sharesCandidate, named, replaceCandidate, placed},
		{sharesCandidate, other, examineCandidate, part},

		{isPlaced, excepted, dismissCandidate, left},
		{isPlaced, wrapped, dismissCandidate, leftWrapped},
		{isPlaced, configured, acceptCandidate, partOfServer},
		{isPlaced, named, examineNextExec, partOfPlaced},
		{isPlaced, other, examineNextExec, part},

		{sharesPlaced, excepted, examineCandidate, left},
		{sharesPlaced, wrapped, dismissCandidate, leftWrapped},
		{sharesPlaced, configured, acceptCandidate, partOfServer},
		{sharesPlaced, named, examineCandidate, partOfPlaced},
		{sharesPlaced, other, examineCandidate, part},
	} {
		f := piped(c.line)
		f.candidate = c.kinship
		f.isBesideClient = true
		want := c.process
		want.candidate = c.step
		if got := judge(&f, judgeRules.judgeCommand(&f)); got != want {
			t.Errorf("%q, kinship %d: %+v, want %+v", c.line, c.kinship, got, want)
		}
	}
}
