// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// inspection is a server in full. Fields are only ever added.
type inspection struct {
	view
	fleet.Shortages
	Ancestry  []processView     `json:"ancestry"` // of the client, itself first
	Tree      []fleet.Member    `json:"tree"`
	Stdio     map[string]string `json:"stdio,omitempty"` // of the main process
	Resources map[string]string `json:"resources,omitempty"`
	Notes     []string          `json:"notes,omitempty"`
}

func inspectCommand(io cli.Stdio) *cobra.Command {
	var f filter
	var asJSON bool
	c := command(spec{
		use: "inspect NAME|ID… [flags]", short: "show all that is known of a server", operands: servers,
		examples: `  mcpscope inspect git
  mcpscope inspect k3x9 --json
`,
		long: `Shows all that is known of servers: client and its ancestry, unit, backend, policy,
process tree, CPU, memory, pids, I/O, what stdin, stdout and stderr are,
and age. What the kernel does not count here is left out. What happened to a server
that has ended is in mcpscope logs NAME.`,
	}, func(operands []string) int { return inspectServers(&f, operands, asJSON, io) })
	allUsers(c.Flags(), &f.allUsers)
	c.Flags().BoolVar(&asJSON, "json", false, "one object")
	return c
}

func inspectServers(f *filter, operands []string, asJSON bool, io cli.Stdio) int {
	if len(operands) == 0 {
		return io.Mistake("inspect", "which server? Give a name or an id")
	}
	servers, err := f.choose(operands)
	if unknown, is := errors.AsType[*unknownError](err); is && harmless(unknown.arg) {
		return io.CannotWithHint("inspect", err, "mcpscope logs "+unknown.arg+", if it has ended")
	}
	if err != nil {
		return io.Cannot("inspect", err)
	}
	defer closeAll(servers)
	all := []inspection{}
	for _, s := range servers {
		found, err := inspect(s)
		if protocol.IsGone(err) {
			continue
		}
		if err != nil {
			return io.Cannot(fmt.Sprintf("inspect %s (%s)", cli.OneLine(s.Name), s.ID), err)
		}
		all = append(all, found)
	}
	if len(all) == 0 {
		return io.Cannot("inspect", &unknownError{operands[0]}) // any more
	}
	if asJSON {
		return showJSON(io, "inspect", struct {
			Version int          `json:"version"`
			Servers []inspection `json:"servers"`
		}{jsonVersion, all})
	}
	for i, found := range all {
		if i > 0 {
			fmt.Fprintln(io.Out)
		}
		found.write(io.Out)
	}
	return cli.ExitOK
}

func inspect(s *fleet.Listed) (inspection, error) {
	v, err := look(s)
	if err != nil {
		return inspection{}, err
	}
	found := inspection{view: v, Shortages: s.Shortages(), Stdio: s.Stdio(), Resources: s.Resources(), Notes: s.Notes()}
	found.Tree, err = s.Tree()
	for _, p := range fleet.Ancestry(s.Client.PID) {
		if p.PID == s.Client.PID {
			p.Name = s.Client.Name
		}
		found.Ancestry = append(found.Ancestry, processView{p.PID, p.Name})
	}
	return found, err
}

func (i *inspection) write(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, cli.OneLine(fmt.Sprintf(format, args...)))
	}
	line("name", "%s (%s)", i.Name, i.ID)
	line("state", "%s%s", i.State, spaced(string(i.Cause)))
	line("backend", "%s%s", i.Backend, spaced(i.Unit))
	if i.Group != "" {
		line("group", "%s", i.Group)
	}
	var ancestors []string
	for _, p := range i.Ancestry {
		ancestors = append(ancestors, fmt.Sprintf("%s[%d]", p.Name, p.PID))
	}
	if i.ClientUnit != "" {
		line("client's unit", "%s", i.ClientUnit)
	}
	line("client", "%s", strings.Join(ancestors, " ← "))
	if i.Started != nil {
		line("started", "%s, %s ago", i.Started.Local().Format(time.DateTime), humanSeconds(i.Age))
	}
	line("policy", "%s", i.Policy)
	for _, note := range i.Notes {
		line("note", "%s", note)
	}
	line("launcher, supervisor", "%d, %d", i.Launcher, i.Supervisor)
	line("CPU", "%s", humanSeconds(i.CPU))
	if i.Memory != nil {
		line("memory", "%s", i.memoryLine())
	}
	if most := i.biggest(); most != "" {
		line("memory of members", "%s", most)
	}
	for _, file := range sortedKeys(i.Limits) {
		line("limit", "%s=%s", file, i.Limits[file])
	}
	if i.OOMKills > 0 {
		line("out of memory", "the kernel killed %d", i.OOMKills)
	}
	if i.PIDsRefused > 0 {
		line("could not fork", "%d times", i.PIDsRefused)
	}
	for _, what := range sortedKeys(i.Resources) {
		line(what, "%s", i.Resources[what])
	}
	for _, what := range sortedKeys(i.Stdio) {
		line(what, "%s", i.Stdio[what])
	}
	_ = w.Flush() // whoever reads has gone
	for _, m := range i.Tree {
		fmt.Fprintf(out, "%s%d %s\n", strings.Repeat("  ", m.Depth+1), m.PID, cli.OneLine(m.Command))
	}
}

// memoryLine says what is counted, where that is not simply the server's group.
func (i *inspection) memoryLine() string {
	text := memoryText(i.view)
	if i.Peak != nil {
		text += ", at most " + humanBytes(*i.Peak)
	}
	switch i.MemoryFrom {
	case fromScope:
		text += ", with the supervisor's"
	case fromMembers:
		text += ", a sum over its processes: the kernel has not counted it from the start"
	}
	return text
}

// biggest are the members with the most memory.
func (i *inspection) biggest() string {
	members := slices.Clone(i.Tree)
	slices.SortStableFunc(members, func(a, b fleet.Member) int { return cmp.Compare(b.Memory, a.Memory) })
	var all []string
	for _, m := range members[:min(len(members), 3)] {
		all = append(all, fmt.Sprintf("%s[%d] %s", m.Name, m.PID, humanBytes(m.Memory)))
	}
	return strings.Join(all, ", ")
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}
