// SPDX-License-Identifier: Apache-2.0

// Package names has the names of groups, guards and helpers, and of the backends that groups come from.
package names

import (
	"math/rand/v2"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/name"
)

// Names in the cgroup tree.
const (
	Slice       = "mcp.slice" // where the groups are
	GroupPrefix = "mcp-"
	ScopeSuffix = ".scope"
	GuardsName  = "guards" // a leaf for guards, helpers, and the watchers of gateways
	PayloadName = "payload"
)

// Names of processes in /proc/PID/comm, before the id of their server. Programs that look for servers by
// their names do not find them.
const (
	GuardPrefix  = "guard-"
	HelperPrefix = "helper-"
)

// WatcherOfTrees is the name of the watcher of a gateway with servers that are trees. Others are called
// mcpscope-watch.
const WatcherOfTrees = "mcpscope-trees"

// Trial is the name of servers that doctor starts to see whether they get a group, and ends at once. The
// journal has no events of them: there would be more of these than of a user's own servers.
const Trial = "mcpscope-probe"

// GuardedBy is the id of the server that a process of that name is the guard of, or "".
func GuardedBy(comm string) string {
	id, is := strings.CutPrefix(comm, GuardPrefix)
	if !is || len(id) != IDLength {
		return ""
	}
	return id
}

// DirectoryName is also the SYSLOG_IDENTIFIER of the server's stderr.
func DirectoryName(server, id string) string { return GroupPrefix + name.Dir(server) + "-" + id }

// KeptPrefix begins the name of a group whose processes have outlived their server, since a pattern keeps
// them. It is no name of a server's group, so no sweep takes it for one. Raw code has it, too
// (guard/children.go).
const KeptPrefix = "mcpscope-kept-"

// KeptName is the name of such a group.
func KeptName(program, id string) string { return KeptPrefix + name.Dir(program) + "-" + id }

// IsKept reports whether a directory has a name as by KeptName, with or without ".scope".
func IsKept(dir string) bool {
	id := IDOf(dir)
	return strings.HasPrefix(dir, KeptPrefix) && len(dir) > len(KeptPrefix)+IDLength &&
		len(id) == IDLength && strings.Trim(id, IDLetters) == ""
}

// An id has so many of these letters.
const (
	IDLetters = "abcdefghjkmnpqrstuvwxyz023456789" // easy to type
	IDLength  = 8
)

// NewID returns 40 random bits. The kernel has given the runtime a seed, so this takes no system call.
func NewID() string {
	var b [IDLength]byte
	for i := range b {
		b[i] = IDLetters[rand.N(len(IDLetters))]
	}
	return string(b[:])
}

// IDOf returns the id in the name of a directory.
func IDOf(dir string) string {
	dir = strings.TrimSuffix(dir, ScopeSuffix)
	return dir[strings.LastIndexByte(dir, '-')+1:]
}

// A session is a directory with the groups of an agent and of its servers. As a slice of a manager it is
// below mcp.slice, so it has no dash but the first one: each would be a level. AgentName is the leaf of the
// agent where no manager makes a scope for it.
const (
	SessionPrefix = "mcp-session_"
	SliceSuffix   = ".slice"
	AgentName     = "agent"
)

// NewSession is the name of a new session of a gateway.
func NewSession(gateway string) string {
	return SessionPrefix + strings.ReplaceAll(name.Dir(gateway), "-", "_") + "_" + NewID() + SliceSuffix
}

// IsSession reports whether a directory has a name as by NewSession.
func IsSession(dir string) bool {
	isNamed := strings.HasPrefix(dir, SessionPrefix) && strings.HasSuffix(dir, SliceSuffix)
	id := SessionID(dir)
	return isNamed && len(id) == IDLength && strings.Trim(id, IDLetters) == ""
}

// SessionID is the id in the name of a session.
func SessionID(dir string) string {
	dir = strings.TrimSuffix(dir, SliceSuffix)
	return dir[strings.LastIndexByte(dir, '_')+1:]
}

// SessionName is the name of its gateway, with "_" for each "-".
func SessionName(dir string) string {
	name := strings.TrimPrefix(dir, SessionPrefix)
	return strings.TrimSuffix(name, "_"+SessionID(dir)+SliceSuffix)
}

// SessionIn returns the innermost session in the path of a cgroup, "" without one, as a path itself.
func SessionIn(path string) string {
	if !strings.Contains(path, "/"+SessionPrefix) {
		return ""
	}
	for path != "" {
		cut := strings.LastIndexByte(path, '/')
		if IsSession(path[cut+1:]) {
			return path
		}
		path = path[:max(cut, 0)]
	}
	return ""
}

// StopSignal asks a guard for a stop: systemd sends it as the scope's KillSignal=, and mcpscope stop.
// Members ignore it by default.
const StopSignal = unix.SIGWINCH

// IsGroup reports whether a directory has a name as by DirectoryName, with or without ".scope". Slices and
// other units have the same prefix.
func IsGroup(dir string) bool {
	id := IDOf(dir)
	return strings.HasPrefix(dir, GroupPrefix) && len(dir) > len(GroupPrefix)+IDLength &&
		len(id) == IDLength && strings.Trim(id, IDLetters) == ""
}

// Backend names where a group comes from. Everything above that is the same.
type Backend string

const (
	Auto          Backend = "auto"           // the best that the host offers
	SystemdUser   Backend = "systemd-user"   // a scope in mcp.slice, of the user's manager
	SystemdSystem Backend = "systemd-system" // the same of the system's
	Delegated     Backend = "delegated"      // below our own cgroup, which was delegated to us
	Cgroup        Backend = "cgroup"         // in <cgroup2 mount>/mcp.slice/<uid>: root without systemd
	// Tree needs no cgroup: the descendants of the launcher are the group. It is the weakest
	// (docs/dev/how-it-works.md).
	Tree Backend = "tree"
)

// HelperArgs are the arguments of a helper, before the descriptors of page and socket. The first one is for
// ps.
func HelperArgs(id string) []string { return []string{HelperPrefix + id, HelperCommand} }

// HelperCommand is the subcommand that is a helper.
const HelperCommand = "supervise"
