// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"bytes"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Save writes what the next brain goes on with. clock converts a time to that of the page.
func (p *Policy) Save(to *page.Looks, clock func(time.Time) int64) {
	*to = page.Looks{
		Due: clock(p.Due), At: clock(p.lastAt), Worked: clock(p.lastWorkedAt), Read: clock(p.lastReadAt),
		Marked: clock(p.lastMarkedAt), Marks: page.Marks(p.last.Marks),
		CPU: int64(p.last.CPU), Own: int64(p.last.Own),
		ReadBytes: p.last.Read, WrittenBytes: p.last.Written, Active: p.last.Active,
		Frozen: p.frozen, NextIsBreath: p.thaw.nextIsBreath, WasBreath: p.thaw.wasBreath, Used: p.Used,
		Trial: uint8(p.thaw.trial), Times: uint32(p.refusal.times),
		WasForInput: p.thaw.wasForInput, IsUncounted: p.isUncounted,
		Reclaimed: to.Reclaimed, // written when it happened
	}
	copy(to.Refused[:len(to.Refused)-1], p.refusal.reason)
}

// Restore is the policy that Save has written, for the same server.
func Restore(after time.Duration, from *page.Looks, clock func(int64) time.Time) *Policy {
	refused, _, _ := bytes.Cut(from.Refused[:], []byte{0})
	p := &Policy{
		Due: clock(from.Due), Used: from.Used, after: after,
		lastAt: clock(from.At), lastWorkedAt: clock(from.Worked), lastReadAt: clock(from.Read),
		lastMarkedAt: clock(from.Marked),
		last: Usage{
			CPU: time.Duration(from.CPU), Own: time.Duration(from.Own),
			Read: from.ReadBytes, Written: from.WrittenBytes,
			Active: from.Active, Marks: Marks(from.Marks),
		},
		frozen: from.Frozen,
		thaw: thaw{
			nextIsBreath: from.NextIsBreath, wasBreath: from.WasBreath,
			wasForInput: from.WasForInput, trial: trial(from.Trial),
		},
		isUncounted: from.IsUncounted,
		refusal:     refusal{reason: string(refused), times: int(from.Times)},
	}
	p.writeNote()
	return p
}
