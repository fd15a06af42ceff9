// SPDX-License-Identifier: Apache-2.0

package render

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
	Server   Server            `json:"server"`
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

// InspectAll leaves out servers that have ended since they were listed.
func InspectAll(servers []*fleet.Listed) (inspections []Inspection, err error) {
	holders := fleet.Holders(servers)
	for _, s := range servers {
		found, err := inspect(s)
		if proc.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s (%s): %w", s.Facts.Name, s.Placed.ID, err)
		}
		found.HeldBy = processesOf(holders[s.Placed.ID])
		inspections = append(inspections, found)
	}
	return inspections, nil
}

// WriteInspections prints servers and sessions in full.
func WriteInspections(out io.Writer, inspections []Inspection, sessions []SessionInspection) {
	for i := range inspections {
		if i > 0 {
			fmt.Fprintln(out)
		}
		inspections[i].write(out)
	}
	for i := range sessions {
		if i+len(inspections) > 0 {
			fmt.Fprintln(out)
		}
		sessions[i].write(out)
	}
}

func inspect(s *fleet.Listed) (Inspection, error) {
	v, err := Measure(s)
	if err != nil {
		return Inspection{}, err
	}
	found := Inspection{Server: v, Notes: s.Handle.Notes()}
	found.Tree, err = s.Handle.Tree()
	if len(found.Tree) > 0 {
		found.Stdio = fleet.Stdio(found.Tree[0].PID)
	}
	found.count(s)
	for _, p := range s.ClientAncestry() {
		found.Ancestry = append(found.Ancestry, Process{PID: p.PID, Name: p.Comm})
	}
	return found, err
}

// count reads what the kernel counts in detail. The groups of another user are not opened by path.
func (i *Inspection) count(s *fleet.Listed) {
	members, memory := s.Handle.Directories()
	if members == "" || s.UID != os.Getuid() {
		return
	}
	if cpu, err := figures.ReadCPU(members); err == nil { // or it has ended
		i.CPUTime = &cpu
	}
	if memory == "" {
		return
	}
	if parts, err := figures.ReadMemory(memory); err == nil { // or it has ended
		i.MemoryParts = &parts
	}
}

// block is text in two columns.
type block struct{ out *tabwriter.Writer }

func (b block) line(label, format string, args ...any) {
	fmt.Fprintf(b.out, "%s\t%s\n", label, cli.OneLine(fmt.Sprintf(format, args...)))
}

// optional is a line that is left out without a text.
func (b block) optional(label, text string) {
	if text != "" {
		b.line(label, "%s", text)
	}
}

func (i *Inspection) write(out io.Writer) {
	b := block{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	i.writeIdentity(b)
	i.writeFigures(b)
	for _, stream := range slices.Sorted(maps.Keys(i.Stdio)) {
		b.line(stream, "%s", i.Stdio[stream])
	}
	_ = b.out.Flush() // cli.Output keeps the error
	writeTree(out, i.Tree)
}

func writeTree(out io.Writer, tree []fleet.Member) {
	for _, m := range tree {
		indent := strings.Repeat("  ", m.Depth+1)
		fmt.Fprintf(out, "%s%d %s %s\n", indent, m.PID, cli.HumanBytes(m.Memory), cli.OneLine(m.Command))
	}
}

func (i *Inspection) writeIdentity(b block) {
	b.line("name", "%s (%s)", i.Server.Name, i.Server.ID)
	b.optional("state", joinTexts(string(i.Server.State), string(i.Server.Cause)))
	if i.Server.IdleSince != nil {
		since := i.Server.IdleSince.Local().Format(time.DateTime)
		b.line("idle", "since %s, woken %s", since, cli.Counted(i.Server.Wakes, "time"))
	}
	if k := i.Server.Kept; k != nil {
		b.line("kept from", "%s (%s)", k.Server, k.From)
	}
	if k := i.Server.Kept; k != nil && k.Until != nil {
		b.line("kept until", "%s", k.Until.Local().Format(time.DateTime))
	}
	b.optional("backend", joinTexts(string(i.Server.Backend), i.Server.Unit))
	b.optional("group", i.Server.Group)
	b.optional("client's unit", i.Server.ClientUnit)
	b.line("client", "%s", i.clientText())
	b.optional("stdin held by", joinProcesses(i.HeldBy))
	b.optional("project", i.Server.Project)
	b.optional("conversation", i.Server.Conversation)
	if i.Server.Started != nil {
		started := i.Server.Started.Local().Format(time.DateTime)
		b.line("started", "%s, %s ago", started, HumanSeconds(i.Server.Age))
	}
	if i.Server.Kept == nil {
		b.line("policy", "%s", i.Server.Policy)
	}
	for _, note := range i.Notes {
		b.line("note", "%s", note)
	}
	if i.Server.Kept == nil {
		b.line("launcher, guard", "%d, %d", i.Server.Launcher, i.Server.Guard)
	}
}

func (i *Inspection) writeFigures(b block) {
	b.line("CPU", "%s%s", HumanSeconds(i.Server.CPU), i.cpuText())
	if i.Server.Memory != nil {
		b.line("memory", "%s", i.Server.MemoryLine())
	}
	b.optional("memory parts", i.memoryText())
	for _, file := range slices.Sorted(maps.Keys(i.Server.Limits)) {
		b.line("limit", "%s=%s", file, i.Server.Limits[file])
	}
	if i.Server.OOMKills > 0 {
		b.line("out of memory", "the kernel killed %d", i.Server.OOMKills)
	}
	if i.Server.PIDsRefused > 0 {
		b.line("could not fork", "%s", cli.Counted(i.Server.PIDsRefused, "time"))
	}
}

// clientText has the client and its ancestors.
func (i *Inspection) clientText() string {
	if len(i.Ancestry) == 0 && i.Server.Client.PID != 0 {
		return i.Server.Client.Text() + ", which has ended"
	}
	var texts []string
	for _, p := range i.Ancestry {
		texts = append(texts, p.Text())
	}
	return strings.Join(texts, " ← ")
}

// MemoryLine names the source of the figure if that is not the server's group.
func (v *Server) MemoryLine() string {
	text := MemoryText(*v)
	if v.Peak != nil {
		text += ", at most " + cli.HumanBytes(*v.Peak)
	}
	switch v.MemoryFrom {
	case fromScope:
		text += ", with that of guard and helper"
	case FromMembers:
		text += ", added up over its processes, with shared pages once: the kernel has no figure for all"
	}
	return text
}

func (i *Inspection) cpuText() string {
	if i.CPUTime == nil {
		return ""
	}
	text := fmt.Sprintf(", %s of it in the kernel", HumanSeconds(i.CPUTime.System))
	throttled := i.CPUTime.Throttled
	if throttled != nil && *throttled > 0 {
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
		cli.HumanBytes(m.Anonymous), cli.HumanBytes(m.Files), cli.HumanBytes(m.Kernel))
	if m.Swapped != nil {
		text += ", and " + cli.HumanBytes(*m.Swapped) + " in swap"
	}
	return text
}

func joinProcesses(processes []Process) string {
	var texts []string
	for _, p := range processes {
		texts = append(texts, p.Text())
	}
	return strings.Join(texts, ", ")
}

// joinTexts leaves out empty texts.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), ", ")
}
