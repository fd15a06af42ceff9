// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"bytes"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// heldSocket is a TCP socket that a member has.
type heldSocket struct {
	pid     int
	inode   uint64
	ofAgent bool // and not of a server
}

// endpoint is that of a proc.TCPSocket.
type endpoint struct{ local, remote, state string }

// areAmongThemselves reports whether members alone have the other ends of all sockets. An agent can have an
// interface to itself on loopback: it may listen where a member is connected.
func areAmongThemselves(sockets []heldSocket) bool {
	connections := map[endpoint]bool{}
	used := map[string]bool{} // local addresses of connections
	var all []endpoint
	var ofAgent []bool
	for _, s := range sockets {
		e, found := s.endpoint()
		if !found {
			return false
		}
		all = append(all, e)
		ofAgent = append(ofAgent, s.ofAgent)
		if e.state == proc.TCPEstablished {
			connections[e] = true
			used[e.local] = true
		}
	}
	for i, e := range all {
		isConnected := e.state == proc.TCPEstablished
		isInside := isConnected && connections[endpoint{e.remote, e.local, e.state}]
		isOwnListener := ofAgent[i] && e.state == proc.TCPListens && used[e.local] && isLoopback(e.local)
		if !isInside && !isOwnListener {
			return false
		}
	}
	return true
}

// endpoint finds the socket in the tables of its process's network.
func (s *heldSocket) endpoint() (e endpoint, found bool) {
	listed, _ := proc.TCPSockets(s.pid) // none, if it has ended
	for _, one := range listed {
		if one.Inode == s.inode {
			return endpoint{one.Local, one.Remote, one.State}, true
		}
	}
	return endpoint{}, false
}

// isLoopback reads an address as the kernel prints it: words of 32 bits in the order of the machine, which is
// little-endian.
func isLoopback(local string) bool {
	address, _, _ := bytes.Cut([]byte(local), []byte(":"))
	isV4 := len(address) == 8 && string(address[6:]) == "7F"
	return isV4 || string(address) == "00000000000000000000000001000000"
}
