// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// An agent on a terminal is idle when the terminal is neither written nor read: while an agent works it draws
// something every few seconds. CPU time does not show that: an agent that waits for a key can use more than
// another one that works. A key wakes it, and nothing else does. So each member has to be the agent itself or
// a server, which only the agent calls: a task in the background would stand still.

// agentGroup is the members of an agent's group at one moment.
type agentGroup struct {
	agent   []int // processes that have the terminal
	servers []int
	own     time.Duration // CPU time of the agent
	marks   Marks
	tied    string // Usage.Tied
}

// member is one that does not have the terminal.
type member struct {
	pid    int
	stdin  file
	stdout file
}

// file is an open file of a process, the zero file for none.
type file struct {
	protocol.File
	kind uint32 // of a mode's bits
}

// argumentsMost is in bytes: a name is in the first arguments.
const argumentsMost = 4096

// Reasons against the freeze of an agent.
const (
	notRaw       = "its terminal is not in raw mode, so not each key would wake it"
	noForeground = "it is not in the foreground of its terminal"
	isStopped    = "a process of it is stopped"
)

// readAgentGroup reads the members and their open files.
func readAgentGroup(pids []int, on client.Terminal) (*agentGroup, error) {
	terminal, err := on.Facts()
	if err != nil {
		return nil, err
	}
	g := &agentGroup{marks: Marks{Read: terminal.Read, Written: terminal.Written}}
	var others []member
	for _, pid := range pids {
		st, err := proc.ReadStat(pid)
		if err != nil {
			return nil, err
		}
		g.marks.Members += st.StartTime<<22 | uint64(pid) // no pid is larger
		m := member{pid, fileAt(pid, 0), fileAt(pid, 1)}
		hasTerminal := m.stdin.File == terminal.File && m.stdout.File == terminal.File
		switch {
		case st.Stopped():
			g.tie(isStopped)
		case hasTerminal && st.Foreground && st.Terminal == terminal.Device:
			g.agent = append(g.agent, pid)
			g.own += time.Duration(st.Ticks) * tick
			g.marks.Reaped += st.ChildFaults
		case hasTerminal:
			g.tie(noForeground)
		case st.State != 'Z' && !isLauncher(pid):
			others = append(others, m)
		}
	}
	if len(g.agent) == 0 {
		g.tie(noForeground)
	}
	g.sortOthers(others)
	return g, g.readFiles()
}

// agentUsage is Usage for an agent.
func agentUsage(pids []int, on client.Terminal) (Usage, error) {
	g, err := readAgentGroup(pids, on)
	if err != nil {
		return Usage{}, err
	}
	return g.usage()
}

// tie records the first reason against a freeze.
func (g *agentGroup) tie(reason string) {
	if g.tied == "" {
		g.tied = reason
	}
}

// fileAt identifies a file of a process.
func fileAt(pid, number int) file {
	f, kind := client.Identify(unix.AT_FDCWD, proc.DescriptorPath(pid, number))
	return file{f, kind}
}

// isLauncher reports whether a process is mcpscope run. Its server is in another group, and stays awake.
func isLauncher(pid int) bool {
	return name.IsRun(proc.Arguments(pid, argumentsMost))
}

// sortOthers finds the servers. A process that a server is started by, such as npx, has the same stdin, and
// so may have the processes that a server starts.
func (g *agentGroup) sortOthers(others []member) {
	ofServers := map[file]bool{}
	for _, m := range others {
		if g.isServer(m) {
			ofServers[m.stdin] = true
		}
	}
	for _, m := range others {
		if ofServers[m.stdin] {
			g.servers = append(g.servers, m.pid)
			continue
		}
		g.tie(m.unknown())
	}
}

// unknown is the reason against a freeze with a process that is neither the agent nor a server.
func (m *member) unknown() string {
	err := proc.EachDescriptor(m.pid, func(int, string) bool { return false })
	comm, gone := proc.Comm(m.pid)
	if err != nil || gone != nil {
		return unexamined
	}
	program := cmp.Or(name.Fit(comm), "a process")
	argv := proc.Arguments(m.pid, argumentsMost)
	if len(argv) > 1 && name.KindOf(argv[0]) == name.Interpreter { // there may be many that are called node
		program += " (" + name.Derive(argv) + ")"
	}
	return fmt.Sprintf("it runs %s, which is not known as a server", program)
}

// isServer reports whether a process has the name of a server, and the agent writes its input and reads its
// output. A name proves nothing, but few agents give a command such an input.
func (g *agentGroup) isServer(m member) bool {
	argv := proc.Arguments(m.pid, argumentsMost)
	if name.MCP(argv) == "" || !m.stdin.isConveyed() || !m.stdout.isConveyed() {
		return false
	}
	in := client.EndOpposite(m.stdin.File, m.stdin.kind == unix.S_IFSOCK)
	out := client.EndOpposite(m.stdout.File, m.stdout.kind == unix.S_IFSOCK)
	if !in.IsKnown() || !out.IsKnown() {
		return false
	}
	return slices.ContainsFunc(g.agent, func(pid int) bool {
		writes, reads, err := client.HasEnds(pid, in, out)
		return err == nil && writes && reads
	})
}

// isConveyed reports whether the file is a pipe or a socket.
func (f file) isConveyed() bool { return f.kind == unix.S_IFIFO || f.kind == unix.S_IFSOCK }

// readFiles looks for open files that another process may wait for.
func (g *agentGroup) readFiles() error {
	var sockets []heldSocket
	for _, pid := range slices.Concat(g.agent, g.servers) {
		err := proc.EachDescriptor(pid, func(_ int, link string) bool {
			held := holdingOf(link)
			if held.lockLines != "" {
				g.marks.Locks += hash(held.lockLines)
			}
			switch {
			case held.kind == tcpSocket && isNpm(pid, g.servers):
			case held.kind == tcpSocket:
				sockets = append(sockets, heldSocket{pid, held.inode, slices.Contains(g.agent, pid)})
			case held.kind != nothingHeld:
				g.tie(held.kind)
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	if len(sockets) > 0 && !areAmongThemselves(sockets) {
		g.tie(tcpSocket)
	}
	return nil
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it never fails
	return h.Sum64()
}

// usage returns the usage of the group, in which traffic and CPU time are those of the servers.
func (g *agentGroup) usage() (Usage, error) {
	u := Usage{Own: g.own, Marks: g.marks, Tied: g.tied}
	for _, pid := range g.servers {
		read, written, err := ReadTraffic(pid)
		if err != nil {
			return u, err
		}
		u.Read += read
		u.Written += written
		st, err := proc.ReadStat(pid)
		if err != nil { // it has just ended
			continue
		}
		u.CPU += time.Duration(st.Ticks+st.ChildTicks) * tick
		u.Active = u.Active || isActive(st)
	}
	return u, nil
}

// tick is a clock tick: USER_HZ is 100.
const tick = 10 * time.Millisecond

// isActive reports whether a process runs, or waits for a processor or a disk.
func isActive(st proc.Stat) bool { return st.State == 'R' || st.State == 'D' }
