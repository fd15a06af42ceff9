// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// A daemon or a program for a person may be in use when its server ends. What ends with the server is told
// then, by its name and its use: see findUse.

// usesMost is how many processes findUse examines, and how many it tells of.
const usesMost = 32

// findUse finds the members outside of the server's own process sessions that others use, before they are
// asked to end, and writes them to the page: a connection from outside to a socket that the member listens
// on, or a window on a display.
func (s *Server) findUse() {
	on := s.Page
	defer func() { on.ByHelper.Daemons.UseFound = true }()
	pids, _ := s.Group.Membership().PIDs() // a partial list is better than none
	own := s.ownSessions()
	var daemons []int
	for _, pid := range pids {
		session, err := unix.Getsid(pid)
		if err == nil && !own[session] && len(daemons) < usesMost {
			daemons = append(daemons, pid)
		}
	}
	if len(daemons) == 0 {
		return
	}
	inside := map[uint64]bool{}
	for _, pid := range pids {
		for _, ino := range socketsOf(pid) {
			inside[ino] = true
		}
	}
	var lines []string
	for _, pid := range daemons {
		st, err := proc.ReadStat(pid)
		use := useOf(pid, inside)
		if err == nil && use != "" {
			its := readProgram(st)
			called := strings.ReplaceAll(its.name(), " ", "_")
			lines = append(lines, fmt.Sprintf("%d %s %s", pid, called, use))
		}
	}
	setText(on.ByHelper.Daemons.InUse[:], "", lines)
}

// inUse are the members that findUse has found. Those that were moved out of the group since are not there.
func (s *Server) inUse() (all []report.InUse) {
	for line := range strings.Lines(textIn(s.Page.ByHelper.Daemons.InUse[:])) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) < 3 {
			continue
		}
		pid, _ := strconv.Atoi(fields[0]) // findUse has written it
		all = append(all, report.InUse{PID: pid, Name: fields[1], Use: fields[2]})
	}
	return all
}

// socketsOf are the inode numbers of the sockets that a process has.
func socketsOf(pid int) (all []uint64) {
	_ = proc.EachDescriptor(pid, func(_ int, link string) bool { // none of another user's
		if f, kind := client.Identify(unix.AT_FDCWD, link); kind == unix.S_IFSOCK {
			all = append(all, f.Ino)
		}
		return true
	})
	return all
}

// useOf is the use that others make of a process, and "" for none. inside are the sockets of all members.
func useOf(pid int, inside map[uint64]bool) string {
	sockets := socketsOf(pid)
	if len(sockets) == 0 {
		return ""
	}
	if port := connectedPort(pid, sockets, inside); port > 0 {
		return fmt.Sprintf("a connection to its port %d", port)
	}
	paths := pathsOfSockets(pid)
	for _, ino := range sockets {
		peer := client.PeerOf(ino)
		if peer == 0 || inside[peer] {
			continue
		}
		if paths[ino] != "" { // as the listener's, from which it was accepted
			return "a connection to its socket " + paths[ino]
		}
		if isDisplay(paths[peer]) {
			return "a window on the display"
		}
	}
	return ""
}

// isDisplay reports whether a socket is that of an X server or of a Wayland compositor.
func isDisplay(path string) bool {
	return strings.Contains(path, "/.X11-unix/X") || strings.Contains(path, "/wayland-")
}

// pathsOfSockets are the paths of the UNIX sockets in the network namespace of a process, by their inode
// numbers.
func pathsOfSockets(pid int) map[uint64]string {
	paths := map[uint64]string{}
	listed, _ := proc.UnixSockets(pid) // none, if it has ended
	for _, one := range listed {
		if one.Path != "" {
			paths[one.Inode] = one.Path
		}
	}
	return paths
}

// connectedPort is a port on which a process listens, and to which somebody outside is connected; or 0.
func connectedPort(pid int, sockets []uint64, inside map[uint64]bool) uint64 {
	own := map[uint64]bool{}
	for _, ino := range sockets {
		own[ino] = true
	}
	rows, _ := proc.TCPSockets(pid) // none, if it has ended
	listening := map[string]bool{}
	type pair struct{ local, remote string }
	ofMembers := map[pair]bool{}
	for _, r := range rows {
		if r.State == proc.TCPListens && own[r.Inode] {
			listening[portOf(r.Local)] = true
		}
		if r.State == proc.TCPEstablished && inside[r.Inode] {
			ofMembers[pair{portOf(r.Local), portOf(r.Remote)}] = true
		}
	}
	for _, r := range rows {
		local := portOf(r.Local)
		isAccepted := r.State == proc.TCPEstablished && own[r.Inode] && listening[local]
		if isAccepted && !ofMembers[pair{portOf(r.Remote), local}] {
			port, _ := strconv.ParseUint(local, 16, 16) // as the kernel prints it
			return port
		}
	}
	return 0
}

// portOf is what is behind the colon of an address.
func portOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return port
}
