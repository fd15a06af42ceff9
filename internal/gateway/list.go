// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/gateway/early"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Running is a gateway that has a watcher.
type Running struct {
	Name    string
	PID     int
	Watcher int
	Notices Notices // of its watcher
}

// HasEnded reports whether the gateway itself has: then its watcher waits for its daemons.
func (r *Running) HasEnded() bool {
	_, err := proc.ReadStat(r.PID)
	return err != nil
}

// Starts reports whether a process is the gateway, or another starter of its servers.
func (r *Running) Starts(pid int) bool {
	isIt := func(s Starter) bool { return s.Process.PID == pid && group.Alive(s.Process) }
	return r.PID == pid || slices.ContainsFunc(r.Notices.Starters, isIt)
}

// Gateways are those whose watchers contain the servers of processes below them.
type Gateways []Running

// Around returns the gateways of this user and of root.
func Around() Gateways { return append(List(os.Getuid()), List(0)...) }

// Of finds the gateway that a process is or is below.
func (all Gateways) Of(pid int) (outer Running, found bool) {
	for pid > 0 {
		i := slices.IndexFunc(all, func(r Running) bool { return r.Starts(pid) })
		if i >= 0 {
			return all[i], true
		}
		st, err := proc.ReadStat(pid)
		if err != nil {
			return Running{}, false
		}
		pid = st.PPID
	}
	return Running{}, false
}

// Daemons describes the daemons of the gateway that live.
func (r *Running) Daemons() (texts []string) {
	for _, s := range r.Notices.Starters {
		if s.IsDaemon && group.Alive(s.Process) {
			texts = append(texts, fmt.Sprintf("%s[%d]", nameOf(s.Process.PID, ""), s.Process.PID))
		}
	}
	return texts
}

// List finds the gateways of a user, or of group.Everyone, by their watchers' command lines, which that
// user's processes may have forged.
func List(uid int) (found []Running) {
	_ = proc.Each(func(pid int) bool { // no process is found without /proc
		gateway, isWatcher := readWatcher(pid, uid)
		isKnown := slices.ContainsFunc(found, func(r Running) bool { return r.PID == gateway.PID })
		if isWatcher && !isKnown { // it has two watchers for a moment
			found = append(found, gateway)
		}
		return true
	})
	return found
}

// readWatcher returns the gateway of a watcher of that user. It returns false for any other process.
func readWatcher(pid, uid int) (gateway Running, isWatcher bool) {
	argv := arguments(pid)
	if len(argv) != 6 || argv[0] != "mcpscope" || argv[1] != early.WatchCommand {
		return Running{}, false
	}
	number, err := strconv.Atoi(argv[2])
	if err != nil || number <= 0 {
		return Running{}, false
	}
	status, err := proc.ReadStatus(pid) // its directory is root's: it keeps tracers off
	if err != nil || !group.Includes(uid, status.UID[0]) {
		return Running{}, false
	}
	gateway = Running{Name: nameOf(number, argv[3]), PID: number, Watcher: pid}
	dir, err := openGroupOf(pid)
	if err != nil {
		return gateway, true
	}
	defer dir.Close()
	gateway.Notices = readNotices(dir, number)
	gateway.Name = cmp.Or(gateway.Name, gateway.Notices.Name) // it has ended
	return gateway, true
}

// nameOf is a gateway's name; an early start gives none of some commands. It is "" in the middle of the exec.
func nameOf(pid int, given string) string {
	if given != "" {
		return given
	}
	argv := arguments(pid)
	if len(argv) == 0 {
		return ""
	}
	return name.Derive(argv)
}
