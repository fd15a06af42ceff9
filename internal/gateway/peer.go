// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
)

// peer is a client's end of a socket. It is remembered, and not held: the search takes longer than a server
// takes to answer.
type peer struct {
	of     file // the server's end
	client int  // pidfd, or -1
	number int
	end    file
}

// open returns a copy of the client's end, or -1.
func (p *peer) open(pid, gateway int, of file) (fd int) {
	if p.client < 0 || p.of != of {
		p.find(pid, gateway, of)
	}
	if p.client < 0 {
		return -1
	}
	fd, err := unix.PidfdGetfd(p.client, p.number, 0)
	if err == nil && identifyFile(fd, "") == p.end {
		return fd
	}
	if err == nil { // the client has closed its end, and opened something else
		_ = unix.Close(fd)
	}
	p.close()
	return -1
}

// ancestorsMost is how many ancestors of a server are searched for its client.
const ancestorsMost = 16

// find looks for the client of a process among its ancestors, up to the gateway: that may have a worker or a
// shell which starts servers.
func (p *peer) find(pid, gateway int, of file) {
	p.close()
	p.of = of
	for range ancestorsMost {
		st, err := proc.ReadStat(pid)
		if err != nil || pid == gateway || st.PPID <= 1 && st.PPID != gateway {
			return
		}
		pid = st.PPID
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return
		}
		number, found := client.FindPeer(pid, of.Ino)
		if found {
			p.client = pidfd
			p.number = number
			p.end = fileAt(pid, number)
			return
		}
		_ = unix.Close(pidfd) // no data can be lost
	}
}

func (p *peer) close() {
	closeAll(p.client)
	p.client = -1
}
