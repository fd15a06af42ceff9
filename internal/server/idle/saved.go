// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"bytes"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Save writes what the next helper goes on with. clock converts a time to that of the page.
func (p *Policy) Save(to *page.IdlePolicy, clock func(time.Time) int64) {
	*to = page.IdlePolicy{
		Due:          clock(p.Due),
		LastAt:       clock(p.lastAt),
		LastWorkedAt: clock(p.lastWorkedAt),
		LastReadAt:   clock(p.lastReadAt),
		LastMarkedAt: clock(p.lastMarkedAt),
		Last: page.IdleUsage{
			CPU:     int64(p.last.CPU),
			Own:     int64(p.last.Own),
			Read:    p.last.Read,
			Written: p.last.Written,
			Active:  p.last.Active,
			Marks:   page.Marks(p.last.Marks),
		},
		Used:         p.Used,
		Frozen:       p.frozen,
		NextIsBreath: p.thaw.nextIsBreath,
		WasForInput:  p.thaw.wasForInput,
		IsUncounted:  p.isUncounted,
		Probation:    uint8(p.thaw.probation),
		RefusedTimes: uint32(p.refusal.times),
	}
	copy(to.RefusedFor[:len(to.RefusedFor)-1], p.refusal.reason)
}

// Restore is the policy that Save has written, for the same server.
func Restore(after time.Duration, from *page.IdlePolicy, clock func(int64) time.Time) *Policy {
	reason, _, _ := bytes.Cut(from.RefusedFor[:], []byte{0})
	p := &Policy{
		after:        after,
		Due:          clock(from.Due),
		lastAt:       clock(from.LastAt),
		lastWorkedAt: clock(from.LastWorkedAt),
		lastReadAt:   clock(from.LastReadAt),
		lastMarkedAt: clock(from.LastMarkedAt),
		last: Usage{
			CPU:     time.Duration(from.Last.CPU),
			Own:     time.Duration(from.Last.Own),
			Read:    from.Last.Read,
			Written: from.Last.Written,
			Active:  from.Last.Active,
			Marks:   Marks(from.Last.Marks),
		},
		Used:   from.Used,
		frozen: from.Frozen,
		thaw: thaw{
			nextIsBreath: from.NextIsBreath,
			wasForInput:  from.WasForInput,
			probation:    probation(from.Probation),
		},
		isUncounted: from.IsUncounted,
		refusal:     refusal{reason: string(reason), times: int(from.RefusedTimes)},
	}
	p.writeNote()
	return p
}
