// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/figures"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// Inspection is a server in full. Fields are only ever added.
type Inspection struct {
	Server
	Ancestry []Process         `json:"ancestry"` // of the client, itself first
	Tree     []fleet.Member    `json:"tree"`
	Stdio    map[string]string `json:"stdio,omitempty"` // of the main process
	// HeldBy are the first processes that hold the other end of stdin after the client's death.
	HeldBy []Process `json:"stdin_held_by,omitempty"`
	// CPUTime and MemoryParts are of a server of the calling user; nil where the kernel does not count them.
	CPUTime     *figures.CPU    `json:"cpu_time,omitempty"`
	MemoryParts *figures.Memory `json:"memory_parts,omitempty"`
	Notes       []string        `json:"notes,omitempty"`
}

// InspectAll leaves out what has ended meanwhile.
func InspectAll(servers []*fleet.Listed) (all []Inspection, err error) {
	holders := fleet.Holders(servers)
	for _, s := range servers {
		found, err := inspect(s)
		if err == nil {
			found.HeldBy = processesOf(holders[s.ID])
			all = append(all, found)
		} else if !proc.IsGone(err) {
			return nil, fmt.Errorf("%s (%s): %w", s.Name, s.ID, err)
		}
	}
	return all, nil
}

// WriteInspections prints servers in full.
func WriteInspections(out io.Writer, all []Inspection) {
	for i := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		all[i].write(out)
	}
}

func inspect(s *fleet.Listed) (Inspection, error) {
	v, err := Measure(s)
	if err != nil {
		return Inspection{}, err
	}
	found := Inspection{Server: v, Notes: s.Notes()}
	if found.Tree, err = s.Tree(); len(found.Tree) > 0 {
		found.Stdio = fleet.Stdio(found.Tree[0].PID)
	}
	found.count(s)
	for _, p := range fleet.Ancestry(s.Client.PID) {
		if p.PID == s.Client.PID {
			p.Comm = s.Client.Name
		}
		found.Ancestry = append(found.Ancestry, Process{p.PID, p.Comm})
	}
	return found, err
}

// count reads what the kernel counts in detail. The groups of another user are not opened by path.
func (i *Inspection) count(s *fleet.Listed) {
	members, memory := s.Directories()
	if members == "" || s.UID != os.Getuid() {
		return
	}
	if cpu, err := figures.ReadCPU(members); err == nil { // or it has ended
		i.CPUTime = &cpu
	}
	if memory == "" {
		return
	}
	if parts, err := figures.ReadMemory(memory); err == nil { // as above
		i.MemoryParts = &parts
	}
}

func (i *Inspection) write(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, cli.OneLine(fmt.Sprintf(format, args...)))
	}
	some := func(what, text string) {
		if text != "" {
			line(what, "%s", text)
		}
	}
	line("name", "%s (%s)", i.Name, i.ID)
	some("state", joined(string(i.State), string(i.Cause)))
	if i.IdleSince != nil {
		line("idle", "since %s, woken %d times", i.IdleSince.Local().Format(time.DateTime), i.Wakes)
	}
	some("backend", joined(string(i.Backend), i.Unit))
	some("group", i.Group)
	var ancestors []string
	for _, p := range i.Ancestry {
		ancestors = append(ancestors, p.Text())
	}
	some("client's unit", i.ClientUnit)
	if len(ancestors) == 0 && i.Client.PID != 0 {
		ancestors = append(ancestors, i.Client.Text()+", which has ended")
	}
	line("client", "%s", strings.Join(ancestors, " ← "))
	some("stdin held by", processes(i.HeldBy))
	some("project", i.Project)
	some("session", i.Session)
	if i.Started != nil {
		line("started", "%s, %s ago", i.Started.Local().Format(time.DateTime), HumanSeconds(i.Age))
	}
	line("policy", "%s", i.Policy)
	for _, note := range i.Notes {
		line("note", "%s", note)
	}
	line("launcher, guard", "%d, %d", i.Launcher, i.Guard)
	line("CPU", "%s%s", HumanSeconds(i.CPU), i.cpuText())
	if i.Memory != nil {
		line("memory", "%s", i.MemoryLine())
	}
	some("memory parts", i.memoryText())
	for _, file := range slices.Sorted(maps.Keys(i.Limits)) {
		line("limit", "%s=%s", file, i.Limits[file])
	}
	if i.OOMKills > 0 {
		line("out of memory", "the kernel killed %d", i.OOMKills)
	}
	if i.PIDsRefused > 0 {
		line("could not fork", "%d times", i.PIDsRefused)
	}
	for _, what := range slices.Sorted(maps.Keys(i.Stdio)) {
		line(what, "%s", i.Stdio[what])
	}
	_ = w.Flush() // cli.Output keeps the error
	for _, m := range i.Tree {
		indent := strings.Repeat("  ", m.Depth+1)
		fmt.Fprintf(out, "%s%d %s %s\n", indent, m.PID, HumanBytes(m.Memory), cli.OneLine(m.Command))
	}
}

// MemoryLine names what is counted, where that is not simply the server's group.
func (v *Server) MemoryLine() string {
	text := MemoryText(*v)
	if v.Peak != nil {
		text += ", at most " + HumanBytes(*v.Peak)
	}
	switch v.MemoryFrom {
	case fromScope:
		text += ", with that of guard and brain"
	case FromMembers:
		text += ", a sum over its processes: the kernel has not counted it from the start"
	}
	return text
}

func (i *Inspection) cpuText() string {
	if i.CPUTime == nil {
		return ""
	}
	text := fmt.Sprintf(", %s of it in the kernel", HumanSeconds(i.CPUTime.System))
	if throttled := i.CPUTime.Throttled; throttled != nil && *throttled > 0 {
		text += fmt.Sprintf("; its limit held it up for %s", HumanSeconds(*throttled))
	}
	return text
}

func (i *Inspection) memoryText() string {
	m := i.MemoryParts
	if m == nil {
		return ""
	}
	text := fmt.Sprintf("%s anonymous, %s files, %s kernel",
		HumanBytes(m.Anonymous), HumanBytes(m.Files), HumanBytes(m.Kernel))
	if m.Swapped != nil {
		text += ", and " + HumanBytes(*m.Swapped) + " in swap"
	}
	return text
}

func processes(all []Process) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.Text())
	}
	return strings.Join(texts, ", ")
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), ", ")
}
