// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fleet

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Member is one process of a server.
type Member struct {
	PID     int    `json:"pid"`
	PPID    int    `json:"ppid"`
	Depth   int    `json:"depth"` // below the topmost member
	Name    string `json:"name"`
	Command string `json:"command"`      // at most 256 bytes
	Memory  uint64 `json:"memory_bytes"` // resident
	State   string `json:"state"`        // as in /proc/PID/stat
}

// Notes are remarks on the start, such as the reason for a weaker backend.
func (s *Listed) Notes() []string {
	if s.group == nil {
		return s.tree.Config.Notes
	}
	text, _, _ := s.group.Payload.Attr(group.AttrNotes) // none, if it can't be read
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// Tree lists the members, children below their parents.
func (s *Listed) Tree() ([]Member, error) {
	pids, err := s.Processes()
	if err != nil {
		return nil, err
	}
	below := map[int][]Member{}
	known := map[int]bool{}
	for _, pid := range pids {
		st, err := proc.ReadStat(pid)
		if err != nil {
			continue // it has exited
		}
		command, _ := proc.Cmdline(pid, protocol.CommandMost)
		memory, _ := proc.ReadMemory(pid) // 0, if it has exited
		below[st.PPID] = append(below[st.PPID], Member{
			PID: pid, PPID: st.PPID, Name: st.Comm, State: string(st.State), Memory: memory.Resident,
			Command: cmp.Or(command, "["+st.Comm+"]"),
		})
		known[pid] = true
	}
	var all []Member
	var descend func(parent, depth int)
	descend = func(parent, depth int) {
		slices.SortFunc(below[parent], func(a, b Member) int { return a.PID - b.PID })
		for _, m := range below[parent] {
			m.Depth = depth
			all = append(all, m)
			descend(m.PID, depth+1)
		}
	}
	var parents []int
	for parent := range below {
		parents = append(parents, parent)
	}
	slices.Sort(parents)
	for _, parent := range parents {
		if !known[parent] {
			descend(parent, 0)
		}
	}
	return all, nil
}

// Ancestor is a process above a client.
type Ancestor struct {
	PID  int
	Name string
}

// Ancestry lists a process, its parent, and so on.
func Ancestry(pid int) []Ancestor {
	const most = 32 // a chain that is read while pids are reused could have a circle
	var all []Ancestor
	for pid > 0 && len(all) < most {
		st, err := proc.ReadStat(pid)
		if err != nil {
			break
		}
		all = append(all, Ancestor{pid, st.Comm})
		pid = st.PPID
	}
	return all
}

// Stdio returns the files of the main process's stdin, stdout and stderr.
func (s *Listed) Stdio() map[string]string {
	tree, err := s.Tree()
	if err != nil || len(tree) == 0 {
		return nil
	}
	all := map[string]string{}
	for fd, name := range []string{"stdin", "stdout", "stderr"} {
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tree[0].PID, fd)); err == nil {
			all[name] = target
		}
	}
	return all
}

// Resources are the kernel's other figures, by their file's name.
func (s *Listed) Resources() map[string]string {
	all := map[string]string{}
	for _, file := range []string{
		"memory.max", "pids.current", "pids.max", "cpu.max", "io.stat", "memory.events", "pids.events",
	} {
		if text := s.file(file); text != "" {
			all[file] = text
		}
	}
	return all
}

// file is the content of a file of the payload on one line, or "".
func (s *Listed) file(name string) string {
	if s.group == nil {
		return ""
	}
	b, err := s.group.Payload.Read(name)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ", ")
}

// MemoryDirectory is the directory with the memory figures of the server since its start, as Directory; ""
// without such figures.
func (s *Listed) MemoryDirectory() string {
	if s.group == nil {
		return ""
	}
	g := s.group.MemoryGroup()
	if g == nil {
		return ""
	}
	return fmt.Sprintf("/proc/self/fd/%d", g.FD())
}
