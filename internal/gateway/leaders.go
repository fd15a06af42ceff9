// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// sessionLeaders are the processes that executed a program below the gateway and lead a process
// session of their own (setsid(2)). A daemon of the gateway is one of them, or a copy of the gateway that has
// executed nothing yet. Another gateway can have the same command line.
type sessionLeaders struct {
	gateway int // its pid
	sid     int // of the gateway, 0 if that has ended

	mu           sync.Mutex
	gatewayName  string // when the gateway was last seen, "" if it had ended
	gatewayImage []byte // at that time
	pids         map[int]bool
}

func newSessionLeaders(gateway *starter) *sessionLeaders {
	leaders := &sessionLeaders{
		gateway:      gateway.PID,
		gatewayName:  gateway.given,
		gatewayImage: imageOf(gateway.PID),
		pids:         map[int]bool{},
	}
	if sid, err := unix.Getsid(gateway.PID); err == nil {
		leaders.sid = sid
	}
	return leaders
}

// leadersMost is more than a gateway has daemons and servers.
const leadersMost = 4096

// record adds a process that executes a program, if it leads a process session. The filter of a process
// does not show which gateway it is from, but only the watcher of its own gateway receives its calls.
func (l *sessionLeaders) record(pid int) {
	sid, err := unix.Getsid(pid)
	if err != nil || sid != pid || sid == l.sid {
		return
	}
	name := nameOf(l.gateway, "")
	image := imageOf(l.gateway)
	l.mu.Lock()
	defer l.mu.Unlock()
	if name != "" {
		l.gatewayName = name
		l.gatewayImage = image
	}
	if len(l.pids) >= leadersMost {
		l.removeEnded()
	}
	if len(l.pids) < leadersMost {
		l.pids[pid] = true
	}
}

// removeEnded makes room for one process. mu is locked.
func (l *sessionLeaders) removeEnded() {
	for pid := range l.pids {
		if len(l.pids) >= leadersMost && proc.Exited(pid) {
			delete(l.pids, pid)
		}
	}
}

// include reports whether a process that may be a daemon is from this gateway.
func (l *sessionLeaders) include(pid int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pids[pid] || l.hasImage(pid)
}

// isCopy reports whether a process is a copy of the gateway, and has executed nothing yet.
func (l *sessionLeaders) isCopy(pid int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasImage(pid)
}

// hasImage is isCopy with mu locked.
func (l *sessionLeaders) hasImage(pid int) bool {
	return len(l.gatewayImage) > 0 && bytes.Equal(imageOf(pid), l.gatewayImage)
}

// lastGatewayName returns the name of the gateway when that was last seen, "" if it had ended.
func (l *sessionLeaders) lastGatewayName() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gatewayName
}

// imageOf is the same for a process and its copies until one executes a program: the addresses in the
// auxiliary vector are random. It is empty if it can't be read.
func imageOf(pid int) []byte {
	vector, _ := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid)) // empty, as documented
	return vector
}
