// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/mcp"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// state is what has become of a candidate.
type state int32

const (
	undecided state = iota
	left
	taken // or about to be
)

// candidate is a program whose stdin and stdout somebody else has the other ends of, until it is known
// whether it is a server, and all that it starts with the same stdin.
type candidate struct {
	first   atomic.Pointer[process] // of them that lives
	tag     tag
	start   uint64
	entry   *entry     // of the board
	outer   *candidate // whose member it was started by, if that was one
	in      input
	command atomic.Pointer[Caller] // as what it was first executed, or nil where nobody may look before it runs
	direct  bool                   // the gateway's own child

	state atomic.Int32
	moved chan struct{} // closed when it is in its group, or will never be

	// What ears knows.
	earID     int32
	watches   []int32
	set       int
	stream    mcp.Stream
	unheard   bool // its stdin can't be looked at
	heard     bool // something was seen
	spins     int
	spinFD    int
	spinUntil time.Time

	freeOnce sync.Once
	free     chan struct{} // closed when it need not be held any more

	begun atomic.Bool             // the program that it has executed last, as far as we know
	ran   atomic.Pointer[program] // the last one of its that began
	heir  atomic.Int32            // a process that it has started with its stdin
}

func (c *candidate) argv() []string { return c.caller().Argv }

func (c *candidate) caller() Caller {
	if called := c.command.Load(); called != nil {
		return *called
	}
	return Caller{}
}

func (c *candidate) runs(argv []string, path string) {
	if len(argv) > 0 {
		c.command.Store(&Caller{Argv: argv, Path: path})
	}
}

// process is held by a pidfd.
type process struct{ pid, pidfd int }

func (c *candidate) pid() int { return c.first.Load().pid }

func (c *candidate) pidfd() int { return c.first.Load().pidfd }

func (c *candidate) is(s state) bool { return state(c.state.Load()) == s }

// decide is true for whoever comes first.
func (c *candidate) decide(s state) bool { return c.state.CompareAndSwap(int32(undecided), int32(s)) }

func (c *candidate) release() { c.freeOnce.Do(func() { close(c.free) }) }

// candidates are all that were seen.
type candidates struct {
	board *board
	mu    sync.Mutex
	next  int                // entry of the board
	byPID map[int]*candidate // those that are undecided
	byTag map[tag]*candidate // and those that are not, for what they have started
}

func newCandidates(b *board) *candidates {
	return &candidates{board: b, byPID: map[int]*candidate{}, byTag: map[tag]*candidate{}}
}

// of returns the candidate that a process is, or has its tag from.
func (all *candidates) of(pid int) *candidate {
	all.mu.Lock()
	c := all.byPID[pid]
	none := len(all.byTag) == 0
	all.mu.Unlock()
	if c != nil && !linux.Ended(c.pidfd()) || none {
		return c
	}
	return all.tagged(locksOf(pid).tag())
}

func (all *candidates) tagged(t tag) *candidate {
	if t == 0 {
		return nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.byTag[t]
}

func (all *candidates) enter(c *candidate) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byPID[c.pid()] = c
	if c.tag != 0 {
		all.byTag[c.tag] = c
		all.note(c)
	}
	if len(all.byTag) > tagsMost {
		all.collect()
	}
}

// leave is for one that is decided, or has ended.
func (all *candidates) leave(c *candidate) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byPID[c.pid()] == c {
		delete(all.byPID, c.pid())
	}
	if c.entry != nil {
		c.entry.State = c.state.Load()
	}
}

// undecided are those of a command line that nobody has decided about.
func (all *candidates) undecided(argv []string) []*candidate {
	all.mu.Lock()
	defer all.mu.Unlock()
	var found []*candidate
	for _, c := range all.byPID {
		if c.is(undecided) && slices.Equal(c.argv(), argv) {
			found = append(found, c)
		}
	}
	return found
}

// tagsMost is how many are kept before those that nobody carries are forgotten.
const tagsMost = entries / 2

func (all *candidates) collect() {
	pids, err := everybody()
	if err != nil {
		return
	}
	kept := map[tag]*candidate{}
	keep := func(c *candidate) {
		for ; c != nil && c.tag != 0 && kept[c.tag] == nil; c = c.outer {
			kept[c.tag] = c
		}
	}
	for _, pid := range pids {
		keep(all.byTag[locksOf(pid).tag()])
	}
	for _, c := range all.byPID {
		keep(c)
	}
	for t, c := range all.byTag {
		if kept[t] == nil && c.entry != nil {
			*c.entry = entry{}
		}
	}
	all.byTag = kept
}

// note writes it down for whoever takes over.
func (all *candidates) note(c *candidate) {
	table := all.board.all()
	for range table {
		if c.entry != nil {
			break
		}
		if e := &table[all.next]; e.Tag == 0 || e.Tag == uint64(c.tag) {
			c.entry = e
		}
		all.next = (all.next + 1) % len(table)
	}
	if c.entry == nil {
		return // more than there is room for: those are not taken over
	}
	e := entry{Dev: c.in.Dev, Ino: c.in.Ino, PID: int32(c.pid()), Start: c.start, State: c.state.Load(), Tag: uint64(c.tag)}
	if c.outer != nil {
		e.Outer = uint64(c.outer.tag)
	}
	*c.entry = e
}

// within are the tags of a candidate and of all that were started by its members.
func (all *candidates) within(c *candidate) map[tag]bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	tags := map[tag]bool{}
	for t, other := range all.byTag {
		for o := other; o != nil; o = o.outer {
			if o == c {
				tags[t] = true
			}
		}
	}
	return tags
}

// passOn gives a candidate whose process has ended to one that has the same stdin from it.
func (c *candidate) passOn() bool {
	pid := int(c.heir.Swap(0))
	if pid == 0 {
		return false
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	if stdin, _ := stdioOf(pid); !stdin.same(c.in.file) || linux.Ended(pidfd) {
		_ = unix.Close(pidfd)
		return false
	}
	if st, err := proc.ReadStat(pid); err == nil {
		c.start = st.StartTime
	}
	_ = unix.Close(c.first.Swap(&process{pid, pidfd}).pidfd)
	return true
}
