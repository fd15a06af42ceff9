// SPDX-License-Identifier: Apache-2.0

package leftover

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/show"
)

// LeakAge is how long a server whose client has just exited may take to end by itself.
const LeakAge = 10 * time.Second

// Sweep stops what is left: orphans at once, leaks after a question.
type Sweep struct {
	sweep.SweepFilter
	LeakAge   time.Duration
	JSON, Yes bool
}

// Run returns the exit status.
func (s *Sweep) Run(io cli.Stdio) int {
	status := s.orphans(io)
	if s.Unit == "" && (s.Yes || s.DryRun || s.JSON || io.CanAsk()) {
		status = max(status, s.leaks(io))
	}
	return status
}

// leaked is the state of a server that runs outside any group after its client exited.
const leaked fleet.State = "leak"

// Swept is an orphan or a leak in JSON.
type Swept struct {
	Version int `json:"version"`
	show.Server
	Stuck   string        `json:"stuck,omitempty"` // why it could not be stopped
	Stopped *bool         `json:"stopped,omitempty"`
	PID     int           `json:"pid,omitempty"`     // of a leak
	Parent  *show.Process `json:"parent,omitempty"`  // of a leak
	Program string        `json:"program,omitempty"` // of a leak; its arguments may be secrets
	File    string        `json:"file,omitempty"`    // that configures a leak
}

func (s *Sweep) print(io cli.Stdio, v Swept) {
	v.Version = 1
	_ = show.PrintJSON(io.Out, v, "") // cli.Output reports it
}

func (s *Sweep) orphans(io cli.Stdio) (status int) {
	what, goal := "stopped", "sweep"
	if s.DryRun {
		what, goal = "would stop", "look for orphans"
	}
	known := map[string]show.Server{}
	if s.JSON {
		known = s.measured()
	}
	orphans, err := sweep.Sweep(s.SweepFilter)
	if len(orphans) == 0 && err == nil && !s.JSON {
		io.None("no orphans")
	}
	for _, o := range orphans {
		switch {
		case s.JSON:
			v := known[o.ID]
			v.ID, v.Name, v.Group, v.State = o.ID, o.Name, cmp.Or(v.Group, o.Dir), fleet.Orphaned
			s.print(io, Swept{Server: v, Stuck: o.Stuck})
		case o.Stuck != "":
			fmt.Fprintf(io.Err, "mcpscope: cannot stop all of %q (%s): %s\n",
				cli.OneLine(o.Name), o.ID, cli.OneLine(o.Stuck))
		default:
			fmt.Fprintf(io.Out, "%s %s (%s)\n", what, cli.OneLine(o.Name), o.ID)
		}
	}
	if err != nil {
		status = io.Cannot(goal, err)
	}
	if err != nil && !s.DryRun {
		io.Hint(cli.Hint(protocol.Auto, err))
	}
	return status
}

// measured are the servers before the sweep, by id.
func (s *Sweep) measured() map[string]show.Server {
	all, _ := fleet.List(selection.Whose(s.AllUsers)) // without figures, otherwise
	defer selection.Close(all)
	known := map[string]show.Server{}
	for _, v := range show.MeasureAll(all) {
		known[v.ID] = v
	}
	return known
}

func (s *Sweep) leaks(io cli.Stdio) (status int) {
	all, unread, err := FindLeaks(selection.Whose(s.AllUsers), s.LeakAge)
	defer CloseLeaks(all)
	for _, err := range unread {
		io.Note("leaks of some servers are not found: cannot " + cli.ErrorLine(err))
	}
	if err != nil {
		return io.Cannot("look for leaks", err)
	}
	stop := !s.DryRun && len(all) > 0
	if !s.JSON {
		writeLeaks(io, all)
		if stop && !s.Yes && !io.Confirmed(fmt.Sprintf("Stop %s?", cli.Counted(len(all), "leak"))) {
			return io.Unconfirmed("stop leaks", "mcpscope sweep --yes")
		}
	}
	for _, l := range all {
		v := l.view()
		if stop && (s.Yes || !s.JSON) {
			err := l.Stop(protocol.DefaultPolicy().TermGrace)
			v.Stopped = new(err == nil)
			if err != nil {
				status = io.Cannot(fmt.Sprintf("stop %s (process %d)", cli.OneLine(v.Name), l.PID), err)
			}
		}
		switch {
		case s.JSON:
			s.print(io, v)
		case v.Stopped != nil && *v.Stopped:
			fmt.Fprintf(io.Out, "stopped %s (process %d)\n", cli.OneLine(v.Name), l.PID)
		}
	}
	return status
}

func (l *Leak) view() Swept {
	v := Swept{
		Server: show.Server{
			Identity: show.Identity{Name: l.Name, UID: l.UID, State: leaked},
			Age:      l.Age.Seconds(),
			Figures:  show.Figures{Processes: 1 + len(l.Below)},
		},
		PID: l.PID, Parent: &show.Process{PID: l.Parent},
		Program: clientconfig.WithoutArguments(l.Argv), File: l.File,
	}
	v.Parent.Name, _ = proc.Comm(l.Parent) // "", if it may not be read
	v.AddMembers(l.all())
	return v
}

func writeLeaks(io cli.Stdio, all []*Leak) {
	if len(all) == 0 {
		io.None("no leaks")
		return
	}
	lines := [][]string{{"PID", "NAME", "AGE", "PROCS", "MEMORY", "PARENT", "COMMAND", "FILE"}}
	for _, l := range all {
		v := l.view()
		lines = append(lines, []string{
			strconv.Itoa(v.PID), v.Name, show.HumanSeconds(v.Age), strconv.Itoa(v.Processes),
			show.MemoryText(v.Server), v.Parent.Text(), v.Program, v.File,
		})
	}
	show.WriteTable(io.Out, lines)
}
