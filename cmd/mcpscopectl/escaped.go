// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/systemd"
	"github.com/mcpscope/mcpscope/scope"
)

// escapedVersion is that of the JSON, in which fields are only ever added.
const escapedVersion = 1

// escapedView is a process that a server had somebody else start: sizes in bytes, times in seconds.
type escapedView struct {
	PID       int     `json:"pid"`
	UID       int     `json:"uid"`
	Name      string  `json:"name"`
	Program   string  `json:"program"` // its arguments may be secrets
	Server    string  `json:"server"`  // its id
	Runs      bool    `json:"server_runs"`
	Unit      string  `json:"unit,omitempty"`
	Age       float64 `json:"age_seconds"`
	Memory    *uint64 `json:"memory_bytes,omitempty"`
	Processes int     `json:"processes"`
	Ended     *bool   `json:"ended,omitempty"` // by sweep
	escaped   *leaks.Escaped
}

// findEscaped lists them; each has to be closed.
func findEscaped(everyone bool, olderThan time.Duration) ([]escapedView, error) {
	servers, err := scope.List(whose(everyone || os.Getuid() == 0)) // root may be in anybody's group
	defer closeAll(servers)
	if err != nil {
		return nil, err // whoever can't be listed would count as escaped
	}
	running := map[string]bool{}
	for _, s := range servers {
		running[s.ID] = true
	}
	inside := processesOf(servers)
	contained := func(pid int, id string) bool { return scope.Contained(pid, id) || inside[pid] }
	found, err := leaks.Search{UID: whose(everyone), OlderThan: olderThan, Contained: contained}.FindEscaped()
	views := []escapedView{}
	for _, e := range found {
		v := escapedView{
			PID: e.PID, UID: e.UID, Name: name.Derive(e.Argv), Program: withoutArguments(e.Argv), Server: e.Server, Runs: running[e.Server] || hidden(e.Server), Age: e.Age.Seconds(),
			Processes: 1 + len(e.Below), escaped: e,
		}
		if where, _, err := proc.ReadCgroup(e.PID); err == nil {
			v.Unit, _, _ = systemd.UnitOf(where, e.UID) // "", outside of any
		}
		var f figures
		f.addMembers(append([]int{e.PID}, e.Below...))
		v.Memory = f.Memory
		views = append(views, v)
	}
	return views, err
}

// hidden tells whether there is such a server of somebody whose servers we may not see.
func hidden(id string) bool {
	_, there := scope.Owner(id)
	return there
}

func closeEscaped(all []escapedView) {
	for _, v := range all {
		v.escaped.Close()
	}
}

func printEscaped(io cli.Stdio, views []escapedView, asJSON bool) (status int) {
	if asJSON {
		return showJSON(io, "print", struct {
			Version int           `json:"version"`
			Escaped []escapedView `json:"escaped"`
		}{escapedVersion, views})
	}
	if len(views) == 0 {
		sayNone(io.Out, "nothing that servers have started elsewhere")
		return cli.ExitOK
	}
	columns := []column{
		{head: "PID"}, {head: "SERVER"}, {head: "WHICH"}, {head: "AGE"}, {head: "PROCS"}, {head: "MEMORY"}, {head: "UNIT", least: 10, clip: fitEnd}, {head: "COMMAND", least: 10, clip: fitEnd},
	}
	var lines [][]string
	for _, v := range views {
		state := "has ended"
		if v.Runs {
			state = "runs"
		}
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Server, state, humanSeconds(v.Age), strconv.Itoa(v.Processes), "~" + humanMemory(v.Memory), cmp.Or(v.Unit, "-"), v.Program,
		})
	}
	writeLines(io.Out, columns, lines, widthOf(io.Out), "COMMAND", "UNIT", "PROCS", "AGE")
	return cli.ExitOK
}

func (f *lsFlags) listEscaped(io cli.Stdio) int {
	views, err := findEscaped(f.allUsers, 0)
	if err != nil {
		return io.Cannot("look for what servers have started elsewhere", err)
	}
	defer closeEscaped(views)
	return printEscaped(io, views, f.json)
}

// sweepEscaped ends those whose server has ended, after it has asked.
func (f *sweepFlags) sweepEscaped(io cli.Stdio) (status int) {
	all, err := findEscaped(f.AllUsers, f.OlderThan)
	if err != nil {
		return io.Cannot("look for what servers have started elsewhere", err)
	}
	defer closeEscaped(all)
	views := []escapedView{}
	for _, v := range all {
		if !v.Runs {
			views = append(views, v)
		}
	}
	if !f.json || f.dryRun {
		if status := printEscaped(io, views, f.json); status != cli.ExitOK {
			return status
		}
	}
	if f.dryRun || len(views) == 0 && !f.json {
		return cli.ExitOK
	}
	if len(views) > 0 && !f.yes && !confirmed(io, fmt.Sprintf("End %s?", counted(len(views), "program"))) {
		return unconfirmed(io, "end what servers have started elsewhere", "mcpscope sweep --escaped --yes")
	}
	for i := range views {
		v := &views[i]
		ended := endStray(io, v.Name, v.PID, f.json, func() error { return v.escaped.Stop(scope.DefaultPolicy().TermGrace) })
		if v.Ended = &ended; !ended {
			status = cli.ExitFailure
		}
	}
	if f.json {
		return max(status, printEscaped(io, views, true))
	}
	return status
}
