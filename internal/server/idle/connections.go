// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// heldSocket is a TCP socket that a member has.
type heldSocket struct {
	pid     int
	inode   uint64
	ofAgent bool // and not of a server
}

// endpoint is a line of /proc/PID/net/tcp: addresses with ports, as they are there.
type endpoint struct{ local, remote, state string }

// States of linux/tcp_states.h.
const (
	established = "01"
	listens     = "0A"
)

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
		if e.state == established {
			connections[e] = true
			used[e.local] = true
		}
	}
	for i, e := range all {
		isInside := connections[endpoint{e.remote, e.local, established}] && e.state == established
		isOwnListener := ofAgent[i] && e.state == listens && used[e.local] && isLoopback(e.local)
		if !isInside && !isOwnListener {
			return false
		}
	}
	return true
}

// endpoint finds the socket in the tables of its process's network.
func (s *heldSocket) endpoint() (e endpoint, found bool) {
	inode := strconv.FormatUint(s.inode, 10)
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", s.pid, table)) // none without IPv6
		for line := range bytes.Lines(text) {
			f := bytes.Fields(line)
			if len(f) > 9 && string(f[9]) == inode {
				return endpoint{string(f[1]), string(f[2]), string(f[3])}, true
			}
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
