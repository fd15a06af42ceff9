//go:build linux

package scope

import "time"

// limits stops a server that has lived, or rested, as long as it may. It has one timer,
// and only if there is a limit.
type limits struct {
	timer *time.Timer
	dies  time.Time // zero for never
	idle  time.Duration
	cpu   time.Duration // when it was last looked at
}

// newLimits begins to count.
func newLimits(p Policy) *limits {
	l := &limits{timer: stoppedTimer(), idle: p.IdleTimeout}
	if p.MaxLifetime > 0 {
		l.dies = time.Now().Add(p.MaxLifetime)
	}
	l.next()
	return l
}

func (l *limits) next() {
	switch wait := time.Until(l.dies); {
	case l.idle > 0 && (l.dies.IsZero() || l.idle < wait):
		l.timer.Reset(l.idle)
	case !l.dies.IsZero():
		l.timer.Reset(max(wait, 0))
	}
}

// elapsed looks whether one of them is reached.
func (l *limits) elapsed(c *course) {
	if !l.dies.IsZero() && time.Until(l.dies) <= 0 {
		c.end(lifetimeOver)
		return
	}
	before := l.cpu
	l.cpu = c.payload.CPU()
	if l.idle > 0 && l.cpu-before < idleCPU && !c.in.unread() {
		c.end(idleTooLong)
		return
	}
	l.next()
}
