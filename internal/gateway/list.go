// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Running is a gateway that has a watcher.
type Running struct {
	Name    string
	PID     int
	Watcher int
	// Notices are the report of its watcher. They are empty for a gateway in another pid namespace,
	// whose numbers are other processes' here.
	Notices Notices
	// self is the gateway in its own pid namespace.
	self protocol.Identity
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

// IsClient reports whether the client of a server is the gateway, or another starter of its servers.
func (r *Running) IsClient(c protocol.Identity) bool {
	if c.Namespace == group.PIDNamespace() {
		return r.Starts(c.PID)
	}
	return c.PID == r.self.PID && c.Namespace == r.self.Namespace
}

// Gateways are those whose watchers contain the servers of processes below them.
type Gateways []Running

// Around returns the gateways of this user and of root.
func Around(t *proc.Table) Gateways {
	return append(List(t, group.CallingUser()), List(t, group.OneUser(0))...)
}

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

// List finds the gateways of a choice of users by their watchers' command lines, which processes of
// these users may have forged. A gateway whose pid can't be found out is left out.
func List(t *proc.Table, users group.Users) (found []Running) {
	for _, p := range t.All() {
		gateway, isWatcher := readWatcher(t, p, users)
		isKnown := slices.ContainsFunc(found, func(r Running) bool { return r.PID == gateway.PID })
		if isWatcher && !isKnown { // it has two watchers for a moment
			found = append(found, gateway)
		}
	}
	return found
}

// readWatcher returns the gateway of a watcher of these users. It returns false for any other process.
func readWatcher(t *proc.Table, p *proc.Process, users group.Users) (gateway Running, isWatcher bool) {
	written, ok := ParseWatcher(p.Arguments())
	if !ok {
		return Running{}, false
	}
	pid := p.PID
	status, err := proc.ReadStatus(pid) // its directory is root's: it keeps tracers off
	if err != nil || !users.Include(status.UID[0]) {
		return Running{}, false
	}
	number := FindGateway(t, pid, written.PID)
	if number == 0 {
		return Running{}, false
	}
	gateway = Running{Name: nameOf(number, written.Name), PID: number, Watcher: pid}
	if status.Nested {
		gateway.self = identityIn(pid, written.PID)
		return gateway, true
	}
	dir, err := openGroupOf(pid)
	if err != nil {
		return gateway, true
	}
	defer dir.Close()
	gateway.Notices = readNotices(dir, number)
	gateway.Name = cmp.Or(gateway.Name, gateway.Notices.Name) // it has ended
	return gateway, true
}

// WatcherArguments are the gateway of a watcher, as the command line of the watcher has it.
type WatcherArguments struct {
	PID  string // in the pid namespace of the watcher
	Name string
}

// ParseWatcher returns false for the command line of any other program. See guarding.fork: the guard adds the
// descriptors of page and socket.
func ParseWatcher(argv []string) (w WatcherArguments, ok bool) {
	const words = 6
	if len(argv) != words || argv[0] != "mcpscope" || argv[1] != WatchCommand {
		return WatcherArguments{}, false
	}
	return WatcherArguments{PID: argv[2], Name: argv[3]}, true
}

// FindGateway returns the pid of a watcher's gateway, 0 for none. written is the number on the watcher's
// command line, which is of the watcher's pid namespace. For a container it is another process's here: 1 is
// not our init. A gateway in another namespace is found only while it lives, and if that may be read.
func FindGateway(t *proc.Table, watcher int, written string) (pid int) {
	status, err := proc.ReadStatus(watcher)
	if err != nil {
		return 0 // it has ended
	}
	wanted := identityIn(watcher, written)
	if !status.Nested {
		return wanted.PID
	}
	if wanted.PID == 0 || wanted.Namespace == 0 {
		return 0
	}
	for _, other := range t.All() {
		st := other.Status()
		isNumber := st.Nested && st.Inside == wanted.PID
		if isNumber && group.PIDNamespaceOf(other.PID) == wanted.Namespace {
			return other.PID
		}
	}
	return 0
}

// identityIn returns the process with that number in the pid namespace of a watcher. Its pid is 0 for another
// text.
func identityIn(watcher int, written string) protocol.Identity {
	number, err := strconv.Atoi(written)
	if err != nil || number < 0 {
		return protocol.Identity{}
	}
	return protocol.Identity{PID: number, Namespace: group.PIDNamespaceOf(watcher)}
}

// nameOf is a gateway's name. It is "" in the middle of the exec.
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
