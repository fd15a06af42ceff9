// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package idle decides when a server that does nothing is frozen, and measures what that depends on. The policy
// starts no process and reads no clock. Its caller freezes, reclaims and thaws.
package idle

import "time"

// The measurements behind these values are in docs/operate/idle.md.
const (
	lookMost   = time.Minute            // between two checks of a server that runs
	silentFor  = 10 * time.Second       // without a byte read
	cpuRate    = 100 * time.Millisecond // per minute: timers use up to 50, a browser 200 and more
	cpuLeast   = 2 * time.Millisecond   // for short times, in which a freeze itself counts
	breathEach = time.Minute            // a call that waits quietly is answered after that
	breathFor  = 250 * time.Millisecond
	breathCPU  = 20 * time.Millisecond
	answerIn   = time.Second // for a ping
	message    = 32          // bytes; no message of MCP is shorter
	ping       = 160         // bytes of a ping, or of its answer, with those of a runtime for itself
	notedAfter = 3           // refusals for one reason
)

// Usage counts from the start of the members.
type Usage struct {
	CPU           time.Duration
	Read, Written int64 // bytes, of files too
	// Active: a thread runs, or waits for a processor or a disk. On a busy machine it may have used nothing yet.
	Active bool
}

// Facts are those of the policy. Obstacle takes longer, and is called if the others permit a freeze.
type Facts interface {
	Usage() (Usage, error)
	// Pending and Obstacle are why the server may not be frozen, "" for no reason. Pending is input or output.
	Pending() string
	Obstacle() string
}

const unexamined = "its processes can't be examined"

// Decision is a task of the caller.
type Decision int

const (
	Stay    Decision = iota // as it is
	Freeze                  // and Confirm
	Reclaim                 // memory, a part at a time, and Reclaimed after the last one
	Thaw                    // and Thawed
)

// Policy is that of one server. Its caller asks it at Due, and reports what it has done.
type Policy struct {
	Due time.Time // the next Look
	// Note is a reason that has kept the server from being frozen several times.
	Note string
	// Used: the server was, since its memory was reclaimed.
	Used bool

	after   time.Duration
	last    Usage
	at      time.Time             // of last
	worked  time.Time             // the last time at which it had used a processor
	read    time.Time             // the same of its input
	frozen  bool                  // since at
	trial   func(used Usage) bool // whether the server is frozen again, after it ran for a moment
	refused string
	times   int // in a row
}

// New is the policy of a server that starts now, and is idle when it has done nothing for that time.
func New(after time.Duration, now time.Time) *Policy {
	p := &Policy{after: after, at: now, worked: now, read: now, Used: true}
	p.Due = now.Add(p.interval())
	return p
}

func (p *Policy) interval() time.Duration { return min(p.after/4, lookMost) }

// Look decides.
func (p *Policy) Look(f Facts, now time.Time) Decision {
	if p.frozen && p.Used {
		return Reclaim
	}
	if p.frozen {
		return Thaw
	}
	p.Due = now.Add(p.interval())
	u, err := f.Usage()
	if err != nil {
		return p.refuse(unexamined)
	}
	over := now.Sub(p.at)
	used := Usage{u.CPU - p.last.CPU, u.Read - p.last.Read, u.Written - p.last.Written, u.Active}
	p.last, p.at = u, now
	quiet := used.CPU < max(time.Duration(over.Minutes()*float64(cpuRate)), cpuLeast)
	if p.trial != nil {
		quiet = p.trial(used)
	}
	if !quiet || used.Active {
		p.worked, p.Used = now, true
	}
	if p.trial == nil && used.Read != 0 {
		p.read = now
	}
	p.trial = nil
	if now.Sub(p.worked) < p.after {
		return Stay
	}
	if wait := min(silentFor, p.after); now.Sub(p.read) < wait {
		if over > wait { // between a client's pings
			p.Due = now.Add(wait)
		}
		return Stay
	}
	why := f.Pending()
	if why == "" {
		why = f.Obstacle()
	}
	if why != "" {
		return p.refuse(why)
	}
	p.times = 0
	return Freeze
}

func (p *Policy) refuse(why string) Decision {
	if why != p.refused {
		p.refused, p.times = why, 0
	}
	if p.times++; p.times == notedAfter {
		p.Note = "not idle: " + why
	}
	return Stay
}

// Confirm looks again when all members are frozen: a message that came meanwhile, or was read and not
// answered, would wait until the next breath. If it returns false, the server has to be thawed.
func (p *Policy) Confirm(f Facts, now time.Time) bool {
	u, err := f.Usage()
	if err != nil || u.Read != p.last.Read || f.Pending() != "" {
		p.read = now
		return false
	}
	p.last, p.at, p.frozen = u, now, true
	p.Due = now // to reclaim
	if !p.Used {
		p.Reclaimed()
	}
	return true
}

// Reclaimed is for memory that does not have to be reclaimed again.
func (p *Policy) Reclaimed() { p.Used, p.Due = false, p.at.Add(breathEach) }

// Thawed is for a server that was thawed: for a breath, or by another event.
func (p *Policy) Thawed(breath bool, now time.Time) {
	p.frozen = false
	if breath {
		p.Due = now.Add(breathFor)
		p.trial = func(used Usage) bool {
			return used.CPU <= breathCPU && used.Written >= 0 && used.Written < message
		}
		return
	}
	p.Due = now.Add(min(answerIn, p.after))
	p.trial = func(used Usage) bool {
		return used.Read > 0 && used.Read <= ping && used.Written >= message && used.Written <= ping
	}
}
