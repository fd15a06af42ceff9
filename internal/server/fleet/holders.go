// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// holdersMost is how many are found for one server: they are for people.
const holdersMost = 3

// Holders finds, by the ids of servers whose client is dead, the processes that have the other end of their
// stdin: such a server gets no EOF, and stays as long as it works. Others of another user are not found.
func Holders(servers []*Listed) map[string][]proc.Stat {
	ends := map[string]client.End{}
	members := map[int]bool{}
	for _, s := range servers {
		if s.Facts.Client.PID == 0 || s.Kept != nil || group.Alive(s.ClientProcess()) {
			continue
		}
		pids, _ := s.Handle.Processes() // as far as they can be listed
		for _, pid := range append(pids, s.Launcher, s.Guard) {
			members[pid] = true
		}
		if end, found := stdinOf(pids); found {
			ends[s.Placed.ID] = end
		}
	}
	all := map[string][]proc.Stat{}
	if len(ends) == 0 {
		return all
	}
	_ = proc.Each(func(pid int) bool { // none, if they can't be listed
		if members[pid] || pid == os.Getpid() {
			return true
		}
		held, _ := client.EndsOf(pid) // none of another user's process
		if len(held) == 0 {
			return true
		}
		st, err := proc.ReadStat(pid)
		for id, end := range ends {
			if end.In(held) && err == nil && len(all[id]) < holdersMost {
				all[id] = append(all[id], st)
			}
		}
		return true
	})
	return all
}

// stdinOf returns the other end of the stdin of the first process, which is the main one.
func stdinOf(pids []int) (end client.End, found bool) {
	if len(pids) == 0 {
		return end, false
	}
	main := slices.Min(pids)
	file, kind := client.Identify(unix.AT_FDCWD, proc.DescriptorPath(main, 0))
	isSocket := kind == unix.S_IFSOCK
	if !isSocket && kind != unix.S_IFIFO {
		return end, false
	}
	return client.EndOpposite(file, isSocket), true
}

// ClientProcess identifies the client, which is in the pid namespace of the launcher.
func (s *Listed) ClientProcess() protocol.Identity {
	client := s.Facts.Client
	return protocol.Identity{PID: client.PID, Start: client.Start, Namespace: s.Facts.Launcher.Namespace}
}
