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
		CPU: int64(p.last.CPU), ReadBytes: p.last.Read, WrittenBytes: p.last.Written, Active: p.last.Active,
		Frozen: p.frozen, NextIsBreath: p.nextIsBreath, WasBreath: p.wasBreath, Used: p.Used,
		Trial: uint8(p.trial), Times: uint32(p.refusal.times),
		WasForInput: p.wasForInput, IsUncounted: p.isUncounted,
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
		last: Usage{
			CPU: time.Duration(from.CPU), Read: from.ReadBytes, Written: from.WrittenBytes,
			Active: from.Active,
		},
		frozen: from.Frozen, nextIsBreath: from.NextIsBreath, wasBreath: from.WasBreath,
		wasForInput: from.WasForInput, trial: trial(from.Trial), isUncounted: from.IsUncounted,
		refusal: refusal{reason: string(refused), times: int(from.Times)},
	}
	p.writeNote()
	return p
}
