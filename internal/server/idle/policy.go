// SPDX-License-Identifier: Apache-2.0

// Package idle decides when a server that does nothing is frozen, and measures what that depends on. The
// policy starts no process and reads no clock but its Server's. Its caller freezes, reclaims and thaws.
package idle

import (
	"cmp"
	"time"
)

// The measurements behind these values are in docs/dev/testing.md.
const (
	lookMost   = time.Minute            // between two checks of a server that runs
	silentFor  = 10 * time.Second       // without a byte read
	cpuRate    = 100 * time.Millisecond // per minute: timers use up to 50 ms, a browser 200 ms and more
	cpuLeast   = 2 * time.Millisecond   // for short times, in which a freeze itself counts
	ownRate    = 6 * time.Second        // per minute, of an agent: an idle one uses up to 1.6 s
	ownLeast   = 100 * time.Millisecond // of an agent, for short times
	breathEach = time.Minute            // a call that waits quietly is answered after that
	breathFor  = 250 * time.Millisecond
	breathCPU  = 20 * time.Millisecond
	answerIn   = time.Second // for a ping
	message    = 32          // bytes; no message of MCP is shorter
	ping       = 64          // bytes, with those of a runtime for itself; no call is shorter than 68
	pong       = 160         // bytes of its answer
	greeting   = 100         // bytes; no answer to initialize is shorter
	notedAfter = 3           // refusals for one reason
)

// Usage counts from the start of the members. Of an agent only its servers count: its own timers use more
// when it is idle than another one when it works.
type Usage struct {
	CPU           time.Duration
	Read, Written int64 // bytes, of files too
	// Active: a member runs, or waits for a processor or a disk. On a busy machine it may have used nothing
	// yet.
	Active bool
	Own    time.Duration // CPU time of an agent itself
	Marks  Marks         // of an agent
	Tied   string        // why an agent's members may not be frozen, "" for no reason
}

// Marks are the same as long as an agent is idle.
type Marks struct {
	// Read and Written are when the terminal was, in seconds. The kernel writes them every eight seconds at
	// most.
	Read, Written int64
	Members       uint64 // depends on all of them
	Locks         uint64 // depends on the locks on files that they hold
	Reaped        uint64 // grows with each process that the agent has started and waited for
}

// Server is a server as a Policy measures, freezes and thaws it. Sleeper is one.
type Server interface {
	Now() time.Time // asked more than once in a look, which may have to wait for a processor
	Usage() (Usage, error)
	// Pending is input or output that keeps it from being frozen, and Obstacle any other reason; "" for no
	// reason.
	Pending() string
	Obstacle(Usage) string
	Freeze() bool
	Thaw()
	Frozen() bool  // all members are, whoever froze them
	Reclaim() bool // gives a part of its memory back, and returns false after the last part
}

// Reasons that several servers have.
const (
	unexamined    = "its processes can't be examined"
	uncounted     = "it reads its input by recv(2), which the kernel does not count: a call could be frozen"
	frozenByOther = "it was frozen by somebody else"
	unwritten     = "it has not answered its client by write(2), so the kernel may not count what it reads"
)

// Act is the outcome of a look.
type Act int

// The acts. The caller of a Wake thaws the members, and calls Thawed.
const (
	None      Act = iota
	Frozen        // all members are
	Reclaimed     // some memory was
	Wake          // the members may run for a moment
)

// Policy decides when one server is frozen, thawed and reclaimed. Its caller calls Look by Due, and
// reports a thaw by Thawed.
type Policy struct {
	Due     time.Time // the next Look
	Note    string    // a reason that has kept the server from being frozen several times
	Used    bool      // since its memory was reclaimed
	IsAgent bool      // on a terminal, with servers of its own

	after        time.Duration
	last         Usage
	lastAt       time.Time
	lastWorkedAt time.Time // when it was found to have used a processor
	lastReadAt   time.Time // when it was found to have read input
	lastMarkedAt time.Time // when an agent's marks were found to have changed
	frozen       bool      // since lastAt
	thaw         thaw
	isUncounted  bool // the kernel does not count its input
	refusal      refusal
}

// thaw is about the last thaw, and the next one.
type thaw struct {
	// nextIsBreath: the server may run for a moment without an event, since it may be in a call in which it
	// waits quietly.
	nextIsBreath bool
	wasForInput  bool
	probation    probation // after the last one
}

// refusal is the last reason to leave a server alone.
type refusal struct {
	reason string
	times  int // in a row
}

// probation is the first interval after a thaw. A server that did almost nothing in it is frozen again at
// once.
type probation uint8

const (
	noProbation probation = iota
	afterWake
	afterBreath
)

// isQuiet reports whether the server used so little that it stays as idle as it was before the interval.
func (p probation) isQuiet(used Usage, interval time.Duration) bool {
	switch p {
	case afterBreath: // it has written no message
		return used.CPU <= breathCPU && used.Written >= 0 && used.Written < message
	case afterWake:
		hasAnsweredPing := used.Read > 0 && used.Written >= message && used.Written <= pong
		return hasAnsweredPing
	}
	return used.CPU < most(interval, cpuRate, cpuLeast)
}

// New is the policy of a server that starts now, and is idle when it has done nothing for that time.
func New(after time.Duration, now time.Time) *Policy {
	return &Policy{
		after: after, Due: now, Used: true,
		lastAt: now, lastWorkedAt: now, lastReadAt: now, lastMarkedAt: now,
	}
}

// Look decides about the server for the time until the next Due.
func (p *Policy) Look(s Server) Act {
	now := s.Now()
	if p.frozen {
		return p.lookAtFrozen(s)
	}
	p.Due = now.Add(min(p.after/4, lookMost))
	if s.Frozen() { // a thaw by a person has to last, so D begins when the members run
		p.lastWorkedAt = now
		p.Used = true
		p.refuse(frozenByOther)
		return None
	}
	interval := now.Sub(p.lastAt)
	isGone := p.thaw.wasForInput && s.Pending() == "" // before its use is measured: see noteVanishedInput
	usage, err := s.Usage()
	seen := s.Now() // this process may have waited for a processor meanwhile
	if err == nil {
		p.noteVanishedInput(isGone, usage)
		p.noteUse(usage, interval, seen)
	}
	switch {
	case p.IsAgent && p.agentIsInUse(s, err, seen):
		return None
	case err != nil:
		p.refuse(unexamined)
		return None
	case now.Sub(p.lastWorkedAt) < p.after:
		return None
	}
	silence := min(silentFor, p.after)
	if now.Sub(p.lastReadAt) < silence {
		if interval > silence { // between a client's pings
			p.Due = now.Add(silence)
		}
		return None
	}
	if reason := p.reasonAgainst(s); reason != "" {
		p.refuse(reason)
		return None
	}
	p.refusal.times = 0
	return p.tryFreeze(s)
}

// agentIsInUse reports whether there is a reason against a freeze of an agent, and then begins the idle time
// again: a connection, or a task in the background, may begin and end between two looks. It counts as a
// refusal if the terminal was silent for that long. failed is the error of this look.
func (p *Policy) agentIsInUse(s Server, failed error, now time.Time) bool {
	reason := unexamined
	if failed == nil {
		reason = p.reasonAgainst(s)
	}
	if reason == "" {
		return false
	}
	p.lastWorkedAt = now
	p.Used = true
	if now.Sub(p.lastMarkedAt) >= p.after {
		p.refuse(reason)
	}
	return true
}

// lookAtFrozen reclaims memory, and then lets the server breathe now and then. What a person has thawed is
// awake, as after an event.
func (p *Policy) lookAtFrozen(s Server) Act {
	if !s.Frozen() {
		return Wake
	}
	if !p.Used {
		p.thaw.nextIsBreath = true
		return Wake
	}
	if s.Reclaim() {
		return Reclaimed
	}
	p.Used = false
	p.Due = p.lastAt.Add(breathEach)
	return None
}

// noteVanishedInput records if input has come and was gone before the use was measured, but no read was
// counted since the last look. A member that still runs may have read it, and not be back from read(2): then
// the next look decides.
func (p *Policy) noteVanishedInput(isGone bool, usage Usage) {
	isUnread := usage.Read == p.last.Read
	if isUnread && usage.Active {
		return
	}
	if isUnread && isGone {
		p.isUncounted = true
	}
	p.thaw.wasForInput = false
}

// noteUse records the use in the interval since the last look, in which the server may have begun to be idle.
// seen is when it has been measured, or later.
func (p *Policy) noteUse(usage Usage, interval time.Duration, seen time.Time) {
	used := Usage{
		CPU:     usage.CPU - p.last.CPU,
		Read:    usage.Read - p.last.Read,
		Written: usage.Written - p.last.Written,
		Own:     usage.Own - p.last.Own,
		// It may still be at the same message: busy machines have few looks.
		Active: usage.Active || p.last.Active,
	}
	if usage.Marks != p.last.Marks {
		p.lastMarkedAt = seen
		p.lastWorkedAt = seen
		p.Used = true
	}
	p.last = usage
	p.lastAt = seen
	hasWorked := !p.thaw.probation.isQuiet(used, interval) || used.Active || used.Read > ping
	agentHasWorked := used.Own >= most(interval, ownRate, ownLeast)
	if hasWorked || agentHasWorked {
		p.lastWorkedAt = seen
		p.Used = true
	}
	if p.mayHaveOpenCall(used) {
		p.lastReadAt = seen
	}
	p.thaw.probation = noProbation
}

// mayHaveOpenCall reports whether the server has read something that it may not have answered. A call may
// take long, and need no processor. So it is not frozen before there was silence.
func (p *Policy) mayHaveOpenCall(used Usage) bool {
	switch p.thaw.probation {
	case afterBreath:
		return used.Read >= message
	case afterWake: // it has answered the ping that woke it, or has worked
		return false
	}
	return used.Read != 0
}

// most is a CPU time in an interval.
func most(interval, rate, least time.Duration) time.Duration {
	return max(time.Duration(interval.Minutes()*float64(rate)), least)
}

// reasonAgainst is why the server may not be frozen now, "" for no reason.
func (p *Policy) reasonAgainst(s Server) string {
	if p.isUncounted {
		return uncounted
	}
	return cmp.Or(p.last.Tied, s.Pending(), s.Obstacle(p.last))
}

// tryFreeze looks once more when all members are frozen: a message that came meanwhile, or was read and not
// answered, would wait until the next breath, and so would a process that waits for a lock.
func (p *Policy) tryFreeze(s Server) Act {
	if s.Freeze() {
		usage, err := s.Usage()
		isSame := err == nil && usage.Read == p.last.Read && usage.Marks == p.last.Marks
		if isSame && usage.Tied == "" && s.Pending() == "" && s.Obstacle(usage) == "" {
			p.last = usage
			now := s.Now()
			p.lastAt = now
			p.frozen = true
			p.refusal = refusal{}
			p.Note = ""
			p.Due = now.Add(breathEach)
			if p.Used {
				p.Due = now // to reclaim
			}
			return Frozen
		}
	}
	p.lastReadAt = s.Now()
	s.Thaw()
	return None
}

func (p *Policy) refuse(reason string) {
	if reason != p.refusal.reason {
		p.refusal = refusal{reason: reason}
	}
	p.refusal.times++
	p.writeNote()
}

func (p *Policy) writeNote() {
	if p.refusal.times >= notedAfter {
		p.Note = "not idle: " + p.refusal.reason
	}
}

// Thawed records a thaw of the server, for a breath or by another event, and sets Due.
func (p *Policy) Thawed(now time.Time, forInput bool) {
	p.thaw.wasForInput = forInput
	p.Due = now.Add(min(answerIn, p.after))
	p.thaw.probation = afterWake
	if p.thaw.nextIsBreath {
		p.Due = now.Add(breathFor)
		p.thaw.probation = afterBreath
	}
	p.thaw.nextIsBreath = false
	p.frozen = false
}
