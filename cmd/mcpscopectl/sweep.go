// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/leftover"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

type sweepFlags struct {
	sweep.SweepFilter
	leakAge           time.Duration
	dryRun, json, yes bool
}

// leakAge is how long a server whose client has just exited may take to end by itself.
const leakAge = 10 * time.Second

func sweepCommand(io cli.Stdio) *cobra.Command {
	f := sweepFlags{leakAge: leakAge}
	c := command(spec{
		use: "sweep [flags]", short: "stop servers that are left: orphans and leaks",
		examples: `  mcpscope sweep
  mcpscope sweep --dry-run
  mcpscope sweep --all-users --older-than 10m --yes
`,
		long: `Stops orphans: groups of servers whose launcher and supervisor were both killed. A
server that is in use, or being started, is never touched. Every start of a server
does the same.

Then it lists leaks, and stops them after a question: processes of configured servers
that run outside any group, whose client exited more than ten seconds ago. Their
parent is the first process or a user manager, and the other ends of stdin and stdout
are closed. Without a terminal to ask on it looks for leaks only with --yes, --dry-run
or --json.`,
	}, func(operands []string) int { return f.run(io) })
	fs := c.Flags()
	allUsers(fs, &f.AllUsers)
	fs.BoolVar(&f.dryRun, "dry-run", false, "only print what would be stopped")
	fs.BoolVar(&f.yes, "yes", false, "stop leaks without a question")
	fs.Func("older-than", "only servers that were started longer ago than `D`, e.g. 10m", func(s string) (err error) {
		f.OlderThan, err = protocol.ParseGrace(s)
		f.leakAge = f.OlderThan
		return err
	})
	fs.StringVar(&f.Unit, "unit", "", "only orphans whose client was in that `UNIT`: for a unit's ExecStopPost=-mcpscope sweep --unit=%n")
	fs.BoolVar(&f.json, "json", false, "a line of JSON for each")
	return c
}

func (f *sweepFlags) run(io cli.Stdio) (status int) {
	find, what, goal := sweep.Sweep, "stopped", "sweep"
	if f.dryRun {
		find, what, goal = fleet.Orphans, "would stop", "look for orphans"
	}
	orphans, err := find(f.SweepFilter)
	if len(orphans) == 0 && err == nil && !f.json {
		sayNone(io.Out, "no orphans")
	}
	for _, s := range orphans {
		f.reportOrphan(s, what, io)
	}
	if err != nil {
		status = io.Cannot(goal, err)
	}
	if err != nil && !f.dryRun {
		io.Hint(cli.Hint(protocol.Auto, err))
	}
	if f.Unit == "" && (f.yes || f.dryRun || f.json || canAsk(io)) {
		status = max(status, f.sweepLeaks(io))
	}
	return status
}

// sweptView is an orphan or a leak in JSON: sizes in bytes, times in seconds.
type sweptView struct {
	Version   int          `json:"version"`
	Kind      string       `json:"kind"`
	Name      string       `json:"name"`
	ID        string       `json:"id,omitempty"`
	Group     string       `json:"group,omitempty"`
	Stuck     string       `json:"stuck,omitempty"`
	File      string       `json:"file,omitempty"`
	PID       int          `json:"pid,omitempty"`
	UID       *int         `json:"uid,omitempty"`
	Parent    *processView `json:"parent,omitempty"`
	Program   string       `json:"program,omitempty"` // its arguments may be secrets
	Age       float64      `json:"age_seconds,omitempty"`
	Memory    *uint64      `json:"memory_bytes,omitempty"`
	Processes int          `json:"processes,omitempty"`
	Stopped   *bool        `json:"stopped,omitempty"`
}

func (f *sweepFlags) reportOrphan(s sweep.Swept, what string, io cli.Stdio) {
	switch {
	case f.json:
		v := sweptView{Version: jsonVersion, Kind: "orphan", Name: s.Name, ID: s.ID, Group: s.Dir, Stuck: s.Stuck}
		_ = printJSON(io.Out, v, "") // see cli.Output
	case s.Stuck != "":
		fmt.Fprintf(io.Err, "mcpscope: cannot stop all of %q (%s): %s\n", cli.OneLine(s.Name), s.ID, cli.OneLine(s.Stuck))
	default:
		fmt.Fprintf(io.Out, "%s %s (%s)\n", what, cli.OneLine(s.Name), s.ID)
	}
}

func (f *sweepFlags) sweepLeaks(io cli.Stdio) (status int) {
	all, err := findLeaks(whose(f.AllUsers), f.leakAge)
	defer closeLeaks(all)
	if err != nil {
		return io.Cannot("look for leaks", err)
	}
	stop := !f.dryRun && len(all) > 0
	if !f.json {
		writeLeaks(io, all)
		if stop && !f.yes && !confirmed(io, fmt.Sprintf("Stop %s?", counted(len(all), "leak"))) {
			return unconfirmed(io, "stop leaks", "mcpscope sweep --yes")
		}
	}
	for _, l := range all {
		var stopped *bool
		if stop && (f.yes || !f.json) {
			err := l.Stop(protocol.DefaultPolicy().TermGrace)
			stopped = new(err == nil)
			if err != nil {
				status = io.Cannot(fmt.Sprintf("stop %s (process %d)", cli.OneLine(l.Server.Name), l.PID), err)
			}
		}
		switch {
		case f.json:
			_ = printJSON(io.Out, viewLeak(l, stopped), "") // see cli.Output
		case stopped != nil && *stopped:
			fmt.Fprintf(io.Out, "stopped %s (process %d)\n", cli.OneLine(l.Server.Name), l.PID)
		}
	}
	return status
}

func viewLeak(l *leftover.Leak, stopped *bool) sweptView {
	v := sweptView{
		Version: jsonVersion, Kind: "leak", Name: l.Server.Name, File: l.Server.File, PID: l.PID, UID: &l.UID,
		Parent: &processView{PID: l.Parent}, Program: withoutArguments(l.Argv), Age: l.Age.Seconds(), Processes: 1 + len(l.Below), Stopped: stopped,
	}
	v.Parent.Name, _ = proc.Comm(l.Parent) // "", if it may not be read
	var f figures
	f.addMembers(append([]int{l.PID}, l.Below...))
	v.Memory = f.Memory
	return v
}

func writeLeaks(io cli.Stdio, all []*leftover.Leak) {
	if len(all) == 0 {
		sayNone(io.Out, "no leaks")
		return
	}
	columns := []column{
		{head: "PID"}, {head: "NAME", least: 10, most: 32}, {head: "AGE"}, {head: "PROCS"}, {head: "MEMORY"}, {head: "PARENT", least: 8, clip: fitName},
		{head: "COMMAND", least: 10, clip: fitEnd}, {head: "FILE", least: 12, clip: fitEnd},
	}
	var lines [][]string
	for _, l := range all {
		v := viewLeak(l, nil)
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Name, humanSeconds(v.Age), strconv.Itoa(v.Processes), "~" + humanMemory(v.Memory), clientText(*v.Parent), v.Program, v.File,
		})
	}
	writeLines(io.Out, columns, lines, widthOf(io.Out), "COMMAND", "PARENT", "PROCS", "AGE")
}

// findLeaks finds those of a user, or of everyone. Each has to be closed.
func findLeaks(uid int, olderThan time.Duration) ([]*leftover.Leak, error) {
	return leftover.Search{UID: uid, OlderThan: olderThan, Inside: insideServers(uid), Known: knownServers()}.Find()
}

func closeLeaks(all []*leftover.Leak) {
	for _, l := range all {
		l.Close()
	}
}

// insideServers lists the servers at the first call. If they cannot be listed, every process may belong to one.
func insideServers(uid int) func(pid int) bool {
	inside, unknown := map[int]bool(nil), false
	return func(pid int) bool {
		if inside == nil {
			inside = map[int]bool{os.Getpid(): true}
			servers, err := fleet.List(uid)
			unknown = err != nil
			for _, s := range servers {
				pids, _ := s.Processes() // none, if it has ended
				for _, pid := range append(pids, s.Launcher, s.Supervisor) {
					inside[pid] = true
				}
			}
			closeAll(servers)
		}
		return unknown || inside[pid]
	}
}

// knownServers reads the configurations at the first call.
func knownServers() func(argv []string) *leftover.Known {
	var rules *gw.Rules
	return func(argv []string) *leftover.Known {
		if rules == nil {
			rules = &gw.Rules{}
			all, _ := everywhere() // none, without a directory to look in
			for _, c := range all {
				for _, s := range c.servers {
					if own := s.Own(); len(own) > 0 && c.err == nil {
						rules.Configured = append(rules.Configured, gw.Configured{Name: s.Label(), File: c.where(), Argv: own})
					}
				}
			}
		}
		if found := rules.Server(argv); found != nil {
			return &leftover.Known{Name: cmp.Or(found.Name, name.Derive(argv)), File: found.File}
		}
		return nil
	}
}

// countLeaks is for doctor and metrics; 0 if they cannot be found.
func countLeaks(uid int) int {
	found, _ := findLeaks(uid, leakAge) // none
	defer closeLeaks(found)
	return len(found)
}
