// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// TCPSocket is a line of /proc/PID/net/tcp or tcp6 (proc_pid_net(5)).
type TCPSocket struct {
	Local, Remote string // addresses with ports, in hexadecimal, as the kernel prints them
	State         string // TCPEstablished, TCPListens or another one
	Inode         uint64
}

// States of linux/tcp_states.h.
const (
	TCPEstablished = "01"
	TCPListens     = "0A"
)

// TCPSockets lists the sockets in the network namespace of a process. A kernel without IPv6 has none of that.
func TCPSockets(pid int) (all []TCPSocket, err error) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		isWithout := table == "tcp6" && errors.Is(err, fs.ErrNotExist)
		if err != nil && !isWithout {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			f := bytes.Fields(line)
			if len(f) < 10 {
				continue
			}
			inode, err := strconv.ParseUint(string(f[9]), 10, 64)
			if err != nil { // the heads
				continue
			}
			all = append(all, TCPSocket{string(f[1]), string(f[2]), string(f[3]), inode})
		}
	}
	return all, nil
}

// UnixSocket is a line of /proc/PID/net/unix (proc_pid_net(5)).
type UnixSocket struct {
	Inode   uint64
	Path    string // "" for none
	Listens bool
}

// UnixSockets lists the sockets in the network namespace of a process.
func UnixSockets(pid int) (all []UnixSocket, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	if err != nil {
		return nil, err
	}
	const accepts = "00010000" // __SO_ACCEPTCON
	for line := range bytes.Lines(text) {
		// Num RefCount Protocol Flags Type St Inode Path
		f := bytes.Fields(line)
		if len(f) < 7 {
			continue
		}
		inode, err := strconv.ParseUint(string(f[6]), 10, 64)
		if err != nil { // the heads
			continue
		}
		one := UnixSocket{Inode: inode, Listens: string(f[3]) == accepts}
		if len(f) > 7 {
			one.Path = string(f[7])
		}
		all = append(all, one)
	}
	return all, nil
}
