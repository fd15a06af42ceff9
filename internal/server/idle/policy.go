// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package idle decides when a server that does nothing is frozen, measures what that depends on, and
// reclaims the memory of a frozen one. The policy starts no process and reads no clock. Its caller freezes
// and thaws.
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

// Facts are those of the policy. Later ones take longer, and are read if those before permit a freeze.
type Facts interface {
	Usage() (Usage, error)
	// Unread: the server has not read all input.
	Unread() bool
	// Full: the server would have to wait for the client before it can write. A freeze cuts such a write
	// short, and not every runtime writes the rest.
	Full() bool
	// Obstacle is why the server may not be frozen, "" for no reason.
	Obstacle() string
}

const unexamined = "its processes can't be examined"

// Decision is a task of the caller.
type Decision int

const (
	Stay   Decision = iota // as it is
	Freeze                 // and Confirm
	Thaw                   // and Thawed
)

type sample struct {
	at time.Time
	Usage
}

// Policy is that of one server. Its caller asks it at Due, and reports what it has done.
type Policy struct {
	// Note is a reason that has kept the server from being frozen several times.
	Note string
	// Reclaim: memory has not been reclaimed since the server was last used.
	Reclaim bool

	after   time.Duration
	due     time.Time
	past    []sample  // the first is as old as after, if there is one so old
	silent  time.Time // no byte was read since
	again   bool      // the last look was for the silence alone
	frozen  bool
	trial   func(used Usage) bool // whether the server is frozen again, after it ran for a moment
	refused string
	times   int // in a row
}

// New is the policy of a server that starts now, and is idle when it has done nothing for that time.
func New(after time.Duration, now time.Time) *Policy {
	p := &Policy{after: after}
	p.restart(Usage{}, now)
	return p
}

// Due is when the policy has to be asked next.
func (p *Policy) Due() time.Time { return p.due }

// restart is for a server that is in use.
func (p *Policy) restart(u Usage, now time.Time) {
	p.past, p.silent, p.Reclaim, p.again, p.trial = []sample{{now, u}}, now, true, false, nil
	p.due = now.Add(p.interval())
}

func (p *Policy) interval() time.Duration { return min(p.after/4, lookMost) }

// Look decides.
func (p *Policy) Look(f Facts, now time.Time) Decision {
	if p.frozen {
		return Thaw
	}
	p.due = now.Add(p.interval())
	u, err := f.Usage()
	if err != nil {
		return p.refuse(unexamined)
	}
	switch trial := p.trial; {
	case trial != nil && (u.Active || !trial(u.since(p.last()))):
		p.restart(u, now)
		return Stay
	case trial != nil:
		p.past = append(p.past[:0], sample{now, u})
	case !p.idle(u, now):
		return Stay
	}
	p.trial = nil
	if f.Unread() {
		return Stay
	}
	if f.Full() {
		return p.refuse("the client does not read its output")
	}
	if why := f.Obstacle(); why != "" {
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

func (p *Policy) last() Usage { return p.past[len(p.past)-1].Usage }

func (u Usage) since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, Read: u.Read - before.Read, Written: u.Written - before.Written}
}

// idle looks once more after a short time if only the silence is missing: between a client's pings.
func (p *Policy) idle(u Usage, now time.Time) bool {
	if u.Read != p.last().Read || u.Active {
		p.silent = now
	}
	p.past = append(p.past, sample{now, u})
	for now.Sub(p.past[1].at) >= p.after {
		p.past = p.past[1:]
	}
	over := now.Sub(p.past[0].at)
	most := max(time.Duration(over.Minutes()*float64(cpuRate)), cpuLeast)
	quiet := over >= p.after && u.CPU-p.past[0].CPU < most
	wait := min(silentFor, p.after)
	silent := now.Sub(p.silent) >= wait
	if p.again = quiet && !silent && !p.again; p.again {
		p.due = now.Add(wait)
	}
	return quiet && silent
}

// Confirm looks again when all members are frozen: a message that came meanwhile, or was read and not
// answered, would wait until the next breath. If it returns false, the server has to be thawed.
func (p *Policy) Confirm(f Facts, now time.Time) bool {
	u, err := f.Usage()
	if err != nil || u.Read != p.last().Read || f.Unread() || f.Full() {
		p.silent = now
		return false
	}
	p.past = append(p.past[:0], sample{now, u})
	p.frozen, p.due = true, now.Add(breathEach)
	return true
}

// Thawed is for a server that was thawed: for a breath, or by another event.
func (p *Policy) Thawed(breath bool, now time.Time) {
	p.frozen = false
	if breath {
		p.due = now.Add(breathFor)
		p.trial = func(used Usage) bool {
			return used.CPU <= breathCPU && used.Written >= 0 && used.Written < message
		}
		return
	}
	p.due = now.Add(min(answerIn, p.after))
	p.trial = func(used Usage) bool {
		return used.Read > 0 && used.Read <= ping && used.Written >= message && used.Written <= ping
	}
}
