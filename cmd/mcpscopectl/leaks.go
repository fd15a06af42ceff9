// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/scope"
)

type leaksFlags struct {
	allUsers, stop, yes, json bool
	olderThan, grace          time.Duration
}

// leakAge is how long a server whose client has just ended may take to end by itself.
const leakAge = 10 * time.Second

func leaksCommand(io cli.Stdio) *cobra.Command {
	f := leaksFlags{olderThan: leakAge, grace: scope.DefaultPolicy().TermGrace}
	c := command(spec{
		use: "leaks [NAME|PID…] [flags]", short: "find servers that clients without mcpscope have left", operands: cobra.NoFileCompletions,
		examples: `  mcpscope leaks
  mcpscope leaks --stop
  mcpscope leaks --stop --yes 4711
`,
		long: `Lists processes that somebody has started as a server and left: their parent is gone
(the first process or a user manager has them), the other end of their stdin is
closed, so that nobody can speak to them ever again, and they are the command of a
configured server, of any client found here and any project that the clients' files
name, or their stdout leads nowhere either, they listen at no address and speak to no
process below them. A process of a client that runs is none. What mcpscope itself runs
is none either: mcpscope sweep. With operands only those of that name or pid.

The exit status is 0 if there are none or all have ended, and with --stop 1 if not.`,
	}, func(operands []string) int { return f.run(operands, io) })
	fs := c.Flags()
	fs.BoolVar(&f.stop, "stop", false, "ask, and end them with all that they have started: SIGTERM, a second, SIGKILL")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	fs.Func("older-than", "only those that were started longer ago than `D` (default 10s)", readBy(&f.olderThan, scope.ParseGrace))
	fs.Func("grace", "from SIGTERM to SIGKILL (default 1s): `D`", readBy(&f.grace, scope.ParseGrace))
	allUsers(fs, &f.allUsers)
	fs.BoolVar(&f.json, "json", false, "one object")
	return c
}

// leaksVersion is that of the JSON, in which fields are only ever added.
const leaksVersion = 1

// leakView is a leak as leaks shows it: sizes in bytes, times in seconds.
type leakView struct {
	PID       int         `json:"pid"`
	UID       int         `json:"uid"`
	Name      string      `json:"name"`
	Program   string      `json:"program"` // its arguments may be secrets
	Server    *knownView  `json:"server,omitempty"`
	Parent    processView `json:"parent"`
	Age       float64     `json:"age_seconds"`
	Memory    *uint64     `json:"memory_bytes,omitempty"`
	Processes int         `json:"processes"`
	Why       []string    `json:"why"`
	Ended     *bool       `json:"ended,omitempty"` // with --stop
	leak      *leaks.Leak
}

type knownView struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// findLeaks finds those of a user, or of everyone. Each has to be closed.
func findLeaks(uid int, olderThan time.Duration) ([]*leaks.Leak, error) {
	return leaks.Search{UID: uid, OlderThan: olderThan, Inside: insideServers(uid), Known: knownServers()}.Find()
}

// insideServers lists the servers when it is first asked. Where they can't be listed everything may be one.
func insideServers(uid int) func(pid int) bool {
	inside, unknown := map[int]bool(nil), false
	return func(pid int) bool {
		if inside == nil {
			servers, err := scope.List(uid)
			unknown = err != nil
			inside = processesOf(servers)
			closeAll(servers)
		}
		return unknown || inside[pid]
	}
}

// processesOf are all of servers, launchers and supervisors with them.
func processesOf(servers []*scope.Listed) map[int]bool {
	all := map[int]bool{}
	for _, s := range servers {
		pids, _ := s.Processes() // none, if it has ended
		for _, pid := range append(pids, s.Launcher, s.Supervisor) {
			all[pid] = true
		}
	}
	return all
}

// knownServers reads the configurations when it is first asked.
func knownServers() func(argv []string) *leaks.Known {
	var rules *gw.Rules
	return func(argv []string) *leaks.Known {
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
			return &leaks.Known{Name: cmp.Or(found.Name, name.Derive(argv)), File: found.File}
		}
		return nil
	}
}

func viewLeak(l *leaks.Leak) leakView {
	v := leakView{
		PID: l.PID, UID: l.UID, Name: name.Derive(l.Argv), Program: withoutArguments(l.Argv), Parent: processView{PID: l.Parent}, Age: l.Age.Seconds(),
		Processes: 1 + len(l.Below), Why: l.Why, leak: l,
	}
	v.Parent.Name, _ = proc.Comm(l.Parent) // "", if it may not be looked at
	if l.Known != nil {
		v.Name, v.Server = l.Known.Name, &knownView{l.Known.Name, l.Known.File}
	}
	var f figures
	f.addMembers(append([]int{l.PID}, l.Below...))
	v.Memory = f.Memory
	return v
}

func (f *leaksFlags) run(operands []string, io cli.Stdio) int {
	if f.yes && !f.stop {
		return io.Mistake("leaks", "--yes is for --stop")
	}
	found, err := findLeaks(whose(f.allUsers), f.olderThan)
	if err != nil {
		return io.Cannot("look for leaks", err)
	}
	views := []leakView{}
	for _, l := range found {
		defer l.Close()
		v := viewLeak(l)
		if len(operands) == 0 || slices.Contains(operands, v.Name) || slices.Contains(operands, strconv.Itoa(v.PID)) {
			views = append(views, v)
		}
	}
	if !f.json {
		f.write(io, views)
	}
	status := cli.ExitOK
	if f.stop && len(views) > 0 {
		if !f.yes && !confirmed(io, fmt.Sprintf("End %s?", counted(len(views), "leak"))) {
			return unconfirmed(io, "end leaks", "mcpscope leaks --stop --yes")
		}
		status = f.end(io, views)
	}
	if f.json {
		return max(status, showJSON(io, "print", struct {
			Version int        `json:"version"`
			Leaks   []leakView `json:"leaks"`
		}{leaksVersion, views}))
	}
	return status
}

func (f *leaksFlags) end(io cli.Stdio, views []leakView) (status int) {
	for i := range views {
		v := &views[i]
		ended := endStray(io, v.Name, v.PID, f.json, func() error { return v.leak.Stop(f.grace) })
		if v.Ended = &ended; !ended {
			status = cli.ExitFailure
		}
	}
	return status
}

// endStray ends a process that mcpscope does not run, and says how that went.
func endStray(io cli.Stdio, name string, pid int, asJSON bool, stop func() error) (ended bool) {
	if err := stop(); err != nil {
		io.Cannot(fmt.Sprintf("end %s (process %d)", cli.OneLine(name), pid), err)
		return false
	}
	if !asJSON {
		fmt.Fprintf(io.Out, "ended %s (process %d)\n", cli.OneLine(name), pid)
	}
	return true
}

func (f *leaksFlags) write(io cli.Stdio, views []leakView) {
	if len(views) == 0 {
		sayNone(io.Out, "no leaks")
		return
	}
	columns := []column{
		{head: "PID"}, {head: "NAME", least: 10, most: 32}, {head: "AGE"}, {head: "PROCS"}, {head: "MEMORY"}, {head: "PARENT", least: 8, clip: fitName}, {head: "COMMAND", least: 10, clip: fitEnd},
		{head: "WHY", least: 12},
	}
	var lines [][]string
	for _, v := range views {
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Name, humanSeconds(v.Age), strconv.Itoa(v.Processes), "~" + humanMemory(v.Memory), clientText(v.Parent), v.Program, strings.Join(v.Why[1:], "; "),
		})
	}
	writeLines(io.Out, columns, lines, widthOf(io.Out), "COMMAND", "PARENT", "PROCS", "AGE")
}

// countLeaks is for doctor and metrics; 0 where they can't be looked for.
func countLeaks(uid int) int {
	found, _ := findLeaks(uid, leakAge) // none
	for _, l := range found {
		l.Close()
	}
	return len(found)
}
