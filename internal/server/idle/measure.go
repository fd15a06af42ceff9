// SPDX-License-Identifier: Apache-2.0

//go:build linux

package idle

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Measure reads what the members of a group have used. It fails if one of them can't be examined: a setuid
// program of another user, or one that has just ended.
func Measure(g group.Payload) (Usage, error) {
	u := Usage{CPU: g.CPU()}
	pids, err := g.Members()
	if err != nil {
		return u, err
	}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			return u, err
		}
		read, counted := proc.Keyed(b, "rchar:")
		written, _ := proc.Keyed(b, "wchar:")
		if !counted {
			return u, fmt.Errorf("read /proc/%d/io: no rchar", pid)
		}
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // none, if it has just ended
		for _, thread := range threads {
			tid, _ := strconv.Atoi(thread.Name()) // of the kernel
			st, err := proc.ReadStat(tid)
			u.Active = u.Active || err == nil && (st.State == 'R' || st.State == 'D')
		}
		u.Read += int64(read)
		u.Written += int64(written)
	}
	return u, nil
}

// Connection is why the TCP sockets of processes forbid a freeze, "" if they do not: a peer outside the
// group would wait for an answer, and may give up.
func Connection(pids []int) string {
	inside := map[string]bool{} // inodes
	spaces := map[string]int{}  // a process for each network namespace
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		fds, err := os.ReadDir(dir + "/fd")
		if err != nil {
			return unexamined
		}
		for _, fd := range fds {
			target, _ := os.Readlink(dir + "/fd/" + fd.Name()) // none, if it was closed
			if inode, is := strings.CutPrefix(target, "socket:["); is {
				inside[strings.TrimSuffix(inode, "]")] = true
			}
		}
		space, _ := os.Readlink(dir + "/ns/net")
		spaces[space] = pid
	}
	for _, pid := range spaces {
		ends := map[[2]string]bool{} // of connections
		for _, table := range []string{"tcp", "tcp6"} {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table)) // none, without IPv6
			for line := range strings.Lines(string(b)) {
				row := strings.Fields(line)
				if len(row) <= inode || !inside[row[inode]] {
					continue
				}
				switch row[state] {
				case listening:
					return "it listens on TCP port " + port(row[local])
				case established:
					ends[[2]string{row[local], row[remote]}] = true
				}
			}
		}
		for end := range ends {
			if !ends[[2]string{end[1], end[0]}] {
				return "it is connected to TCP port " + port(end[1])
			}
		}
	}
	return ""
}

// Columns and states of /proc/net/tcp.
const (
	local, remote, state, inode = 1, 2, 3, 9
	established, listening      = "01", "0A"
)

func port(address string) string {
	n, _ := strconv.ParseUint(address[strings.LastIndexByte(address, ':')+1:], 16, 16) // of the kernel
	return fmt.Sprint(n)
}
