// SPDX-License-Identifier: Apache-2.0

//go:build linux

package idle

import (
	"time"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Rest freezes a server by the policy, and thaws it.
type Rest struct {
	// Reclaimed: the server has to read its memory back when it is thawed.
	Reclaimed bool

	group   *group.ControlGroup
	client  *client.Side
	loop    *loop.Loop
	policy  *Policy
	reclaim *Reclaim // under way, in a frozen server
	note    Note
	breath  bool // the next thaw is one
}

// Begin is for a server that starts now.
func Begin(after time.Duration, g *group.ControlGroup, in *client.Side, l *loop.Loop, now time.Time) *Rest {
	return &Rest{group: g, client: in, loop: l, policy: New(after, now)}
}

// Due is when Look has something to do.
func (r *Rest) Due(now time.Time) time.Time {
	if r.reclaim != nil {
		return now
	}
	return r.policy.Due()
}

// Look is for when nothing else has happened. Freeze means that the members are frozen now, Thaw that they
// have to be thawed, by the caller.
func (r *Rest) Look(now time.Time) Decision {
	if r.reclaim != nil {
		if !r.reclaim.Step() {
			r.endReclaim()
		}
		return Stay
	}
	switch r.policy.Look(r, now) {
	case Freeze:
		if r.freeze(now) {
			return Freeze
		}
	case Thaw:
		r.breath = true
		return Thaw
	}
	return Stay
}

// Note is why the server is not frozen, "" for no lasting reason.
func (r *Rest) Note() string { return r.policy.Note }

func (r *Rest) freeze(now time.Time) bool {
	if !freeze.Freeze(r.group.Payload) || !r.policy.Confirm(r, now) ||
		r.loop.Add(r.client.Arrival.FD(), loop.TokenInput) != nil {
		_ = r.group.Payload.SetFrozen(false) // gone is as good
		return false
	}
	r.note.Since = now
	if r.policy.Reclaim {
		r.beginReclaim()
	}
	r.note.write(r.group.Payload)
	return true
}

func (r *Rest) beginReclaim() {
	r.policy.Reclaim = false
	counted := r.group.MemoryGroup()
	pids, _ := r.group.Payload.Members() // a part is better than none
	if r.reclaim = NewReclaim(counted, pids); r.reclaim == nil {
		return
	}
	r.Reclaimed = true
	r.note.Before = proc.SumMemory(pids)
	if counted != nil {
		r.note.Before, _ = counted.Number("memory.current") // 0 is unknown
	}
}

func (r *Rest) endReclaim() {
	if r.reclaim != nil {
		r.reclaim.Close()
		r.reclaim = nil
	}
}

// Wake thaws the members, unless a person has frozen them.
func (r *Rest) Wake() {
	if !r.breath { // written before the server can answer, so that no view is wrong
		r.note.Wakes++
		r.note.Since = time.Time{}
		r.note.write(r.group.Payload)
	}
	if !Held(r.group.Payload) {
		_ = r.group.Payload.SetFrozen(false) // gone is as good
	}
	r.loop.Remove(r.client.Arrival.FD())
	r.endReclaim()
	r.policy.Thawed(r.breath, time.Now())
	r.breath = false
}

// Usage, Unread, Full and Obstacle are the policy's facts.
func (r *Rest) Usage() (Usage, error) { return Measure(r.group.Payload) }

// Unread is described with Usage.
func (r *Rest) Unread() bool { return r.client.Arrival.Readable() }

// Full is described with Usage.
func (r *Rest) Full() bool { return r.client.Room[0].Full() || r.client.Room[1].Full() }

// Obstacle is described with Usage.
func (r *Rest) Obstacle() string {
	switch in := r.client; {
	case in.Arrival == nil || !in.Conveyed:
		return "its stdin is neither a pipe nor a socket"
	case in.Arrival.Unheld():
		return "it has replaced its stdin"
	case group.Frozen(r.group.Payload):
		return "it was frozen by somebody else"
	}
	pids, err := r.group.Payload.Members()
	if err != nil {
		return protocol.OneLine(err)
	}
	return Connection(pids)
}
