// SPDX-License-Identifier: Apache-2.0

// Package idle decides when a server that does nothing is frozen, and measures what that depends on. The
// policy starts no process and reads no clock. Its caller freezes, reclaims and thaws.
package idle

import (
	"cmp"
	"time"
)

// The measurements behind these values are in docs/dev/testing.md.
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
	ping       = 64          // bytes, with those of a runtime for itself; no call is shorter than 68
	pong       = 160         // bytes of its answer
	notedAfter = 3           // refusals for one reason
)

// Usage counts from the start of the members.
type Usage struct {
	CPU           time.Duration
	Read, Written int64 // bytes, of files too
	// Active: a member runs, or waits for a processor or a disk. On a busy machine it may have used nothing
	// yet.
	Active bool
}

// Server is one that the policy is for.
type Server interface {
	Usage() (Usage, error)
	// Pending (input or output) and Obstacle are why it may not be frozen, "" for no reason.
	Pending() string
	Obstacle() string
	Freeze() bool
	Thaw()
	Reclaim() bool // gives a part of its memory back, and returns false after the last part
}

// Reasons that several servers have.
const (
	unexamined = "its processes can't be examined"
	uncounted  = "it reads its input by recv(2), which the kernel does not count: a call could be frozen"
)

type Act int

const (
	None      Act = iota
	Frozen        // all members are
	Reclaimed     // some memory was
	Wake          // the caller has to thaw the members, and to call Thawed
)

// Policy is that of one server. Its caller asks it at Due, and reports what it has done.
type Policy struct {
	Due  time.Time // the next Look
	Note string    // a reason that has kept the server from being frozen several times
	Used bool      // since its memory was reclaimed

	after    time.Duration
	last     Usage
	at       time.Time // of last
	worked   time.Time // the last time at which it had used a processor
	read     time.Time // the same of its input
	frozen   bool      // since at
	breath   bool      // the next thaw is one
	breathed bool      // the last thaw was one
	trial    trial
	input    bool // the last thaw was for input
	blind    bool // its input is not counted
	refused  string
	times    int // in a row
}

// trial is why a server runs for a moment, after which it may be frozen again.
type trial uint8

const (
	noTrial trial = iota
	afterWake
	afterBreath
)

// passes reports whether a server has done nothing but to answer a ping, or nothing at all.
func (t trial) passes(used Usage) bool {
	if t == afterBreath {
		return used.CPU <= breathCPU && used.Written >= 0 && used.Written < message
	}
	return used.Read > 0 && used.Written >= message && used.Written <= pong
}

// New is the policy of a server that starts now, and is idle when it has done nothing for that time.
func New(after time.Duration, now time.Time) *Policy {
	return &Policy{after: after, Due: now, at: now, worked: now, read: now, Used: true}
}

func (p *Policy) Look(s Server, now time.Time) Act {
	switch {
	case p.frozen && p.Used && s.Reclaim():
		return Reclaimed
	case p.frozen && p.Used:
		p.Used = false
		p.Due = p.at.Add(breathEach)
		return None
	case p.frozen:
		p.breath = true
		return Wake
	}
	p.Due = now.Add(min(p.after/4, lookMost))
	u, err := s.Usage()
	if err != nil {
		return p.refuse(unexamined)
	}
	over := now.Sub(p.at)
	// One that was active at the last look may still be at the same message: busy machines have few looks.
	active := u.Active || p.last.Active
	used := Usage{u.CPU - p.last.CPU, u.Read - p.last.Read, u.Written - p.last.Written, active}
	p.last = u
	p.at = now
	quiet := used.CPU < max(time.Duration(over.Minutes()*float64(cpuRate)), cpuLeast)
	if p.trial != noTrial {
		quiet = p.trial.passes(used)
	}
	// Input has come and is not there any more, but no read was counted: recv(2) counts nowhere.
	p.blind = p.blind || p.input && used.Read == 0 && s.Pending() == ""
	p.input = false
	if !quiet || used.Active || used.Read > ping { // a call may take long, and need no processor
		p.worked = now
		p.Used = true
	}
	if used.Read != 0 && p.trial == noTrial || used.Read >= message && p.breathed { // it may be unanswered
		p.read = now
	}
	p.trial = noTrial
	if now.Sub(p.worked) < p.after {
		return None
	}
	if wait := min(silentFor, p.after); now.Sub(p.read) < wait {
		if over > wait { // between a client's pings
			p.Due = now.Add(wait)
		}
		return None
	}
	if p.blind {
		return p.refuse(uncounted)
	}
	if why := cmp.Or(s.Pending(), s.Obstacle()); why != "" {
		return p.refuse(why)
	}
	p.times = 0
	if s.Freeze() {
		// Once more when all members are frozen: a message that came meanwhile, or was read and not answered,
		// would wait until the next breath.
		u, err = s.Usage()
		if err == nil && u.Read == p.last.Read && s.Pending() == "" {
			p.last = u
			p.at = now
			p.frozen = true
			p.Due = now.Add(breathEach)
			if p.Used {
				p.Due = now // to reclaim
			}
			return Frozen
		}
	}
	p.read = now
	s.Thaw()
	return None
}

func (p *Policy) refuse(why string) Act {
	if why != p.refused {
		p.refused = why
		p.times = 0
	}
	p.times++
	p.note()
	return None
}

func (p *Policy) note() {
	if p.times >= notedAfter {
		p.Note = "not idle: " + p.refused
	}
}

// Thawed is for a server that was thawed: for a breath, or by another event.
func (p *Policy) Thawed(now time.Time, input bool) {
	p.input = input
	p.Due = now.Add(min(answerIn, p.after))
	p.trial = afterWake
	if p.breath {
		p.Due = now.Add(breathFor)
		p.trial = afterBreath
	}
	p.breathed = p.breath
	p.breath = false
	p.frozen = false
}
