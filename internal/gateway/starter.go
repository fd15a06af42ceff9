// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// starter is a process that starts servers, and so is their client.
type starter struct {
	protocol.Identity // Start is 0 for a gateway that had ended before this watcher began
	pidfd             int
	given             string // its name, if that was known when it began; see name
	stdin             file
	service           *cgroup.Group // in which it was when this watcher began, or nil
	isDaemon          bool
	endedAt           atomic.Int64 // in ns since the boot; 0 until then
	ends              endsCache
}

// newGateway returns the gateway as a starter, which may have ended. given is its name, or "". Its pidfd is
// on the page.
func newGateway(pid int, given string) *starter {
	gateway := &starter{given: nameOf(pid, given)}
	gateway.PID = pid
	self, err := group.Identify(pid)
	if err != nil {
		return gateway // it has ended
	}
	gateway.Identity = self
	gateway.stdin = fileAt(pid, 0)
	gateway.service = serviceOf(pid)
	return gateway
}

// newStarter makes a starter of a process that lives. It fails for one that has ended.
func newStarter(pid, pidfd int) (*starter, error) {
	self, err := group.Identify(pid)
	if err == nil && linux.Ended(pidfd) { // its pid may be another's by now
		err = unix.ESRCH
	}
	return &starter{Identity: self, pidfd: pidfd, stdin: fileAt(pid, 0)}, err
}

// newEndedStarter returns the client of a server that the watcher before had, for one that has ended.
func newEndedStarter(facts protocol.ClientFacts) *starter {
	ended := &starter{given: facts.Name}
	ended.PID = facts.PID
	// As the pidfd of an ended process, it is readable. -1 without a free descriptor shows no end.
	ended.pidfd, _ = unix.Eventfd(1, unix.EFD_CLOEXEC)
	return ended
}

// name may change: a process can execute another program.
func (s *starter) name() string { return nameOf(s.PID, s.given) }

func (s *starter) text() string { return fmt.Sprintf("%s[%d]", s.name(), s.PID) }

func (s *starter) ended() bool { return linux.Ended(s.pidfd) }

// exits reports whether it has ended or is about to: the kernel closes the descriptors of a process before
// its pidfd shows the end.
func (s *starter) exits() bool {
	st, err := proc.ReadStat(s.PID)
	return s.ended() || err == nil && st.Exiting
}

// recordEnd records that the starter ends now.
func (s *starter) recordEnd() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // it can't fail
	s.endedAt.Store(now.Nano())
}

// hasEndedBefore reports whether a process is younger than the end of a starter, which so never was its
// client: a script that the starter has left has started it. The kernel counts starts in ticks. In the tick
// of the end, the process has a parent below the gateway that made its stdin.
func (s *starter) hasEndedBefore(pid int) bool {
	const tick = int64(time.Second / 100) // USER_HZ
	st, err := proc.ReadStat(pid)
	if err != nil {
		return false
	}
	started := int64(st.StartTime)
	ended := s.endedAt.Load() / tick // 0, if the watcher has not noticed it yet
	if ended != 0 && started != ended {
		return started > ended
	}
	parent, err := proc.ReadStatus(st.PPID)
	isBelow := err == nil && parent.Filtered // init and managers, which adopt orphans, have no filter
	return isBelow && fileAt(st.PPID, 0) != fileAt(pid, 0)
}

// serviceOf opens the control group of the service that a process is in; it is nil in a scope, and in no
// unit.
func serviceOf(pid int) *cgroup.Group {
	path, _ := proc.ReadCgroup(pid) // no unit, if it has ended
	unit, _, ok := systemd.UnitOf(path, os.Getuid())
	if !ok || !strings.HasSuffix(unit, ".service") {
		return nil
	}
	dir, _ := openGroupOf(pid) // nil, if it has ended
	return dir
}

// A service's processes get SIGKILL as soon as its main process has ended (KillMode=mixed). No event reports
// that this will not happen.
const (
	serviceLookEvery = 20 * time.Millisecond
	serviceLooks     = 100
)

// serviceIsGone reports whether the service in which a starter was has no process left soon after its end.
// systemd kills all processes of a service then, and would have killed a program that was moved out of it,
// too. It does not do so in a scope.
func (s *starter) serviceIsGone() bool {
	if s.service == nil {
		return false
	}
	for range serviceLooks {
		state, err := s.service.State()
		if err == nil && !state.Populated {
			return true
		}
		time.Sleep(serviceLookEvery)
	}
	return false
}

// endsCache caches the pipes and sockets that a starter holds. For a starter with many servers it takes long
// to read them.
type endsCache struct {
	mu    sync.Mutex
	last  client.Ends
	until time.Time
}

// read reads the ends anew when it has spent less than a 20th of the time on that.
func (e *endsCache) read(pid int) client.Ends {
	e.mu.Lock()
	defer e.mu.Unlock()
	began := time.Now()
	if began.Before(e.until) {
		return e.last
	}
	e.last, _ = client.EndsOf(pid) // a part is better than none
	now := time.Now()
	e.until = now.Add(20 * now.Sub(began))
	return e.last
}
