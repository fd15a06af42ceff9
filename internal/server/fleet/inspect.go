// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"os"
	"slices"

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

// treeOf returns the processes in the order of their trees, each with its depth. It leaves out processes that
// have ended.
func treeOf(pids []int) []Member {
	slices.Sort(pids)
	var members []Member
	below := map[int][]Member{}
	isMember := map[int]bool{}
	for _, pid := range pids {
		st, err := proc.ReadStat(pid)
		if err != nil {
			continue // it has exited
		}
		m := Member{
			PID: pid, PPID: st.PPID, Name: st.Comm, State: string(st.State),
			Memory:  proc.ReadMemory(pid).Resident,
			Command: cmp.Or(proc.Cmdline(pid, protocol.CommandMost), "["+st.Comm+"]"),
		}
		members = append(members, m)
		isMember[pid] = true
		below[m.PPID] = append(below[m.PPID], m)
	}
	var ordered []Member
	var addTrees func(roots []Member, depth int)
	addTrees = func(roots []Member, depth int) {
		for _, m := range roots {
			m.Depth = depth
			ordered = append(ordered, m)
			addTrees(below[m.PID], depth+1)
		}
	}
	roots := slices.DeleteFunc(members, func(m Member) bool { return isMember[m.PPID] })
	addTrees(roots, 0)
	return ordered
}

// Ancestry lists a process, its parent, and so on.
func Ancestry(pid int) (all []proc.Stat) {
	const most = 32 // a chain that is read while pids are reused could have a circle
	for st, err := proc.ReadStat(pid); err == nil && len(all) < most; st, err = proc.ReadStat(st.PPID) {
		all = append(all, st)
	}
	return all
}

// ClientAncestry returns the client and its ancestors, the client first. It is empty for a client that has
// ended, whose pid may be another process's. Of a client in another pid namespace the ancestors are not
// known.
func (s *Listed) ClientAncestry() []proc.Stat {
	client := s.ClientProcess()
	switch {
	case client.PID == 0 || !group.Alive(client):
		return nil
	case client.Namespace != group.PIDNamespace():
		return []proc.Stat{{PID: client.PID, Comm: s.Facts.Client.Name}}
	}
	all := Ancestry(client.PID)
	if len(all) > 0 {
		all[0].Comm = s.Facts.Client.Name
	}
	return all
}

// Stdio returns the files of a process's stdin, stdout and stderr.
func Stdio(pid int) map[string]string {
	all := map[string]string{}
	for fd, name := range []string{"stdin", "stdout", "stderr"} {
		if target, err := os.Readlink(proc.DescriptorPath(pid, fd)); err == nil {
			all[name] = target
		}
	}
	return all
}
