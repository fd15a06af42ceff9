// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// limits stops a server that has lived, or rested, as long as it may. It has one alarm,
// and only if there is a limit.
type limits struct {
	Alarm Alarm
	dies  time.Time // zero for never
	idle  time.Duration
	cpu   time.Duration // when it was last looked at
}

// NewLimits begins to count.
func NewLimits(p protocol.Policy) *limits {
	l := &limits{idle: p.IdleTimeout}
	if p.MaxLifetime > 0 {
		l.dies = time.Now().Add(p.MaxLifetime)
	}
	l.next()
	return l
}

func (l *limits) next() {
	switch wait := time.Until(l.dies); {
	case l.idle > 0 && (l.dies.IsZero() || l.idle < wait):
		l.Alarm.Set(l.idle)
	case !l.dies.IsZero():
		l.Alarm.Set(wait)
	}
}

// Elapsed looks whether one of them is reached.
func (l *limits) Elapsed(c *Lifecycle) {
	if !l.dies.IsZero() && time.Until(l.dies) <= 0 {
		c.End(protocol.LifetimeOver)
		return
	}
	before := l.cpu
	l.cpu = c.payload.CPU()
	if l.idle > 0 && l.cpu-before < protocol.IdleCPU && !c.in.unread() {
		c.End(protocol.IdleTooLong)
		return
	}
	l.next()
}
