// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// Reason is the reason for which a server is stopped here, and not by its guard: a text for the journal.
type Reason string

const (
	// Abandoned: launcher and guard are dead, or halted. There is no wait for those that are halted: a member
	// can halt them again.
	Abandoned Reason = "neither its launcher nor a guard looked after it"
	// NotStopped: launcher or guard may live, and have not stopped the server.
	NotStopped Reason = "it had not ended in time after a request to stop"
)

// End stops a server, calls dead, and removes its group. It calls a container engine as the calling user.
//
// The kernel delays the notification of an empty group for 10 ms, and much longer on a busy machine. A
// removal drops it, and systemd keeps the scope. So systemd gets the time to remove the scope itself.
func End(g *group.ControlGroup, why Reason, grace time.Duration, dead func()) (Swept, error) {
	of := g.Attributes().Facts()
	engine := g.Attributes().Engine()
	empty := !group.Populated(g.Top())
	known := knownOf(g, of)
	s := Swept{ID: g.ID, Name: of.Name, Dir: g.Dir}
	command := []string{engine, "run"}
	if container.EndsFirst(engine) {
		_ = container.End(g.ID, command, os.Environ(), grace) // repeated below
	}
	left, err := g.Membership().EndWithTagged(freeze.Stop{Request: unix.SIGTERM, Grace: grace})
	s.Stuck = group.DescribeStuck(left)
	ended := err == nil && s.Stuck == ""
	if ended { // a server may have named an engine that fails: the group is removed all the same
		if failed := container.End(g.ID, command, os.Environ(), grace); failed != nil {
			s.Stuck = failed.Error()
		}
	}
	if !empty && err == nil {
		text := "swept: " + string(why)
		priority := systemd.Notice
		if s.Stuck != "" {
			text = "swept, but for " + s.Stuck
			priority = systemd.Warning
		}
		fields := append(known, journal.Field("stuck", s.Stuck))
		subjectOf(g, of).Log(journal.Swept, priority, text, fields...)
	}
	if !ended {
		return s, err
	}
	if guard := g.Guard().Open(); guard >= 0 { // it was halted, and exits when it runs
		_ = g.Top().Thaw()                                    // with its leaf of guards; it was removed
		_ = unix.PidfdSendSignal(guard, unix.SIGCONT, nil, 0) // it has ended
		linux.AwaitWithin(guard, unix.POLLIN, policy.ReactWithin)
		_ = unix.Close(guard)
	}
	dead()
	if g.Manager().Nudge(); g.Managed && g.Manager().AwaitRemoval() {
		return s, nil
	}
	return s, g.RemoveWhole()
}
