// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

// noProcess is a pid that no kernel gives.
const noProcess = 1 << 30

func TestSweepMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"sweep time": usage("sweep", `unexpected argument "time"`),
		"sweep --older-than soon": usage("sweep", `--older-than "soon": `+
			`"soon" is no duration (like 30s, 10m or 1d)`),
		// an age that none has is no age
		"sweep --older-than infinity --yes": usage("sweep", `--older-than "infinity": `+
			`"infinity" is no duration (like 30s, 10m or 1d)`),
	})
}

// What is for leaks is not ignored where leaks are not searched.
func TestSweepOfAUnitHasNoLeaks(t *testing.T) {
	for _, flags := range []string{"--yes"} {
		s := say(append([]string{"sweep", "--unit", "no-such.service"}, strings.Fields(flags)...)...)
		if s.status != cli.ExitUsage || !strings.Contains(s.err, "--unit") {
			t.Errorf("%s: %+v", flags, s)
		}
	}
}

// What is unsure is listed with the reason, apart from the leaks, and no question is about it.
func TestUnsureIsLeftAlone(t *testing.T) {
	found := leaks.List{Unsure: []*leaks.Leak{{
		PID: noProcess, Name: "time", Dir: "/srv/web", Argv: []string{"python3", "main.py"}, Doubt: "it listens",
	}}}
	f := sweepFlags{yes: true, quiet: true}
	got := printed(func(stdio cli.Stdio) int { return f.listAndStop(stdio, found) })
	if got.status != cli.ExitOK || got.out != "" {
		t.Errorf("%+v", got)
	}
	for _, word := range []string{"1 process", "/srv/web", "python3 main.py", "it listens"} {
		if !strings.Contains(got.err, word) {
			t.Errorf("no %q in %s", word, got.err)
		}
	}
	f.json = true
	got = printed(func(stdio cli.Stdio) int { return f.printLeaksJSON(stdio, found) })
	var v leaks.Swept
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.Server.State != "unsure" || v.Doubt != "it listens" || v.Stopped != nil {
		t.Errorf("%+v: %v", got, err)
	}
}

// A unit without orphans has no output, and leaks of other clients are not searched.
func TestSweepOfAUnit(t *testing.T) {
	checkSaid(t, map[string]said{
		"sweep --dry-run --unit no-such.service":        {},
		"sweep --dry-run --json --unit no-such.service": {},
	})
}

// printed returns the status and the output of a function.
func printed(f func(cli.Stdio) int) said {
	var out, errs bytes.Buffer
	status := f(cli.Stdio{Out: &out, Err: &errs})
	return said{status, out.String(), errs.String()}
}

func TestPrintOrphan(t *testing.T) {
	orphan := sweep.Swept{Name: "ti\nme", ID: "k3x9w2ab"}
	stuck := orphan
	stuck.Stuck = "7 (D)\x1b"
	for name, c := range map[string]struct {
		flags  sweepFlags
		orphan sweep.Swept
		want   said
	}{
		"stopped": {sweepFlags{}, orphan, said{out: "stopped ti?me (k3x9w2ab)\n"}},
		"dry run": {sweepFlags{dryRun: true}, orphan, said{out: "would stop ti?me (k3x9w2ab)\n"}},
		"stuck":   {sweepFlags{}, stuck, failure(`stop all of "ti?me" (k3x9w2ab): 7 (D)?`, "")},
	} {
		got := printed(func(stdio cli.Stdio) int {
			return c.flags.printOrphan(stdio, c.orphan, render.Server{})
		})
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A script that reads JSON learns by the status, too, that an orphan is stuck.
func TestPrintStuckOrphanAsJSON(t *testing.T) {
	f := sweepFlags{json: true}
	got := printed(func(stdio cli.Stdio) int {
		return f.printOrphan(stdio, sweep.Swept{Name: "time", Stuck: "7 (D)"}, render.Server{})
	})
	if got.status != cli.ExitFailure || got.err != "" || !strings.Contains(got.out, `"stuck":"7 (D)"`) {
		t.Errorf("%+v", got)
	}
}

func TestPrintStopped(t *testing.T) {
	l := &leaks.Leak{Name: "ti\nme", PID: 7}
	for want, err := range map[said]error{
		{out: "stopped ti?me (process 7)\n"}:                                        nil,
		failure("stop ti?me (process 7): it has changed since it was examined", ""): errors.New("it has changed since it was examined"),
	} {
		if got := printed(func(stdio cli.Stdio) int { return printStopped(stdio, l, err) }); got != want {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
}

// Without a terminal and without --yes, no leak is stopped.
func TestLeaksAreStoppedAfterAQuestion(t *testing.T) {
	found := []*leaks.Leak{{PID: noProcess, Name: "time"}}
	var f sweepFlags
	got := printed(func(stdio cli.Stdio) int { return f.stopListed(stdio, found) })
	if want := failure("stop leaks: not confirmed", "mcpscope sweep --yes"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A script that sweeps orphans has the same output on stdout. Leaks that it leaves alone are on stderr.
func TestLeaksThatAreLeftAlone(t *testing.T) {
	for count, want := range map[int]string{
		1: "mcpscope: note: 1 leak left alone, because there is no terminal to ask: mcpscope sweep --yes\n",
		2: "mcpscope: note: 2 leaks left alone, because there is no terminal to ask: mcpscope sweep --yes\n",
	} {
		var f sweepFlags
		got := printed(func(stdio cli.Stdio) int {
			f.noteLeftAlone(stdio, count)
			return cli.ExitOK
		})
		if got != (said{err: want}) {
			t.Errorf("%d: %+v, want %q", count, got, want)
		}
	}
	age := 10 * time.Minute
	f := sweepFlags{servers: selection.Selection{AllUsers: true, OlderThan: &age}}
	if got := f.line("--yes"); got != "mcpscope sweep --all-users --older-than 10m0s --yes" {
		t.Errorf("%q", got)
	}
}

// A script reads which configurations could not be read, and not that there is nothing.
func TestUnreadConfigurationsAreNoted(t *testing.T) {
	found := leaks.List{Unread: []string{"read /h/.mcp.json: malformed"}, Searched: []string{"/h"}}
	var f sweepFlags
	got := printed(func(stdio cli.Stdio) int {
		f.noteLeaks(stdio, found)
		return cli.ExitOK
	})
	if !strings.Contains(got.err, "/h/.mcp.json") || strings.Contains(got.err, "no leaks") || got.out != "" {
		t.Errorf("%+v", got)
	}
}

// The figures of a leak are without its daemons. Before leaks are stopped, a person reads that.
func TestDaemonsOfLeaksAreNoted(t *testing.T) {
	found := leaks.List{Found: []*leaks.Leak{{PID: noProcess, Name: "time"}}}
	const note = "mcpscope: note: background daemons that these servers started are neither counted nor stopped\n"
	dry := sweepFlags{dryRun: true}
	got := printed(func(stdio cli.Stdio) int { return dry.listAndStop(stdio, found) })
	if got.status != cli.ExitOK || got.err != note || !strings.HasPrefix(got.out, "PID ") {
		t.Errorf("dry run: %+v", got)
	}
}

// Without a terminal a person reads, too, that there is nothing: by ssh, or in a pipe. A timer is quiet.
func TestNothingToSweep(t *testing.T) {
	const (
		leaks   = "no leaks (servers that an agent without mcpscope has left behind) of the servers configured in /h\n"
		daemons = "mcpscope: note: background daemons that servers have left are not found: look for them with ps\n"
	)
	everyone := selection.Selection{AllUsers: true}
	for what, c := range map[string]struct {
		flags sweepFlags
		want  string
	}{
		"nothing":            {sweepFlags{noOrphans: true}, "mcpscope: note: no orphans, and " + leaks},
		"orphans alone":      {sweepFlags{}, "mcpscope: note: " + leaks},
		"nothing, a dry run": {sweepFlags{servers: everyone, dryRun: true, noOrphans: true}, "mcpscope: note: no orphans, and " + leaks + daemons},
		"quiet":              {sweepFlags{servers: everyone, dryRun: true, noOrphans: true, quiet: true}, ""},
	} {
		got := printed(func(stdio cli.Stdio) int {
			c.flags.sayNone(stdio, []string{"/h"})
			return cli.ExitOK
		})
		if got != (said{err: c.want}) {
			t.Errorf("%s: %+v, want %q", what, got, c.want)
		}
	}
}

func TestPrintLeaks(t *testing.T) {
	found := []*leaks.Leak{{
		PID: noProcess, Parent: noProcess + 1, Age: time.Hour, Name: "time", File: "/c.json",
		Argv: []string{"/usr/bin/uvx", "x", "--token", "SECRET"}, Dir: "/srv", Below: []int{noProcess + 2},
	}}
	table := printed(func(stdio cli.Stdio) int {
		writeLeaks(stdio, found)
		return cli.ExitOK
	})
	want := "PID NAME AGE PROCS MEMORY DIRECTORY COMMAND FILE " +
		"1073741824 time 1h0m 2 - /srv /usr/bin/uvx x --token … /c.json"
	if got := strings.Join(strings.Fields(table.out), " "); got != want || table.err != "" {
		t.Errorf("%+v\nwant %q", table, want)
	}
	var f sweepFlags
	list := printed(func(stdio cli.Stdio) int { return f.printLeaksJSON(stdio, leaks.List{Found: found}) })
	var v leaks.Swept
	if err := json.Unmarshal([]byte(list.out), &v); err != nil || list.status != cli.ExitOK {
		t.Fatalf("%+v: %v", list, err)
	}
	if v.Version != 1 || v.Server.State != "leak" || v.PID != noProcess || v.Server.Processes != 2 || v.Stopped != nil ||
		strings.Count(list.out, "\n") != 1 || strings.Contains(list.out, "SECRET") || v.Directory != "/srv" {
		t.Errorf("%s", list.out)
	}
	none := printed(func(stdio cli.Stdio) int {
		return f.printLeaksJSON(stdio, leaks.List{})
	})
	if none != (said{}) {
		t.Errorf("no leaks, and no terminal: %+v", none)
	}
}

// Where no server was found, the sentence has the directories of the search.
func TestNoLeaks(t *testing.T) {
	const none = "no leaks (servers that an agent without mcpscope has left behind)"
	for want, searched := range map[string][]string{
		none: nil,
		none + " of the servers configured in /home/a, /srv":                 {"/home/a", "/srv"},
		none + " of the servers configured in /1, /2, /3, /4, /5 and 2 more": {"/1", "/2", "/3", "/4", "/5", "/6", "/7"},
	} {
		if got := noLeaks(searched); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A search that failed is not an empty one.
func TestLeaksThatCannotBeFound(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		f := sweepFlags{servers: selection.Selection{AllUsers: true}}
		wantSaid(t, "leaks", printed(f.sweepLeaks), failure("look for leaks: "+onlyRoot, ""))
	})
}
