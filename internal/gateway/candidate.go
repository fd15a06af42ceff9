// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// candidate is a program that may be a server.
type candidate struct {
	program program               // its argv is guarded by mu
	group   *launcher.TakenServer // of one that is known by its name alone, see examiner.place; or nil
	holder  holder

	hasInput      atomic.Bool  // some was seen
	hasClient     atomic.Bool  // see findClient
	withoutClient atomic.Int32 // messages of a process that is no client

	mu        sync.Mutex
	isDecided bool // or the pidfd is closed
}

// decided reports whether another thread has decided about a candidate.
func (c *candidate) decided() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isDecided
}

// decide ends a candidate, and returns false if another thread has done that.
//
// A thread that has decided about a candidate without a group, and holds its mu, may call this for candidates
// with groups: see groups.moveChild. No thread that holds the mu of one with a group locks another one. So
// threads can't wait for each other in a circle.
func (c *candidate) decide() (decided bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDecided {
		return false
	}
	c.isDecided = true
	return true
}

// arguments are those of the program that the process executes now.
func (c *candidate) arguments() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.program.argv
}

// setArguments replaces the arguments of a candidate whose process executes another program.
func (c *candidate) setArguments(argv []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.program.argv = argv
}

// findClient reports whether one process has, or has had, the other ends of a candidate's stdin and stdout.
func (c *candidate) findClient() bool {
	if !c.hasClient.Load() && c.program.hasClient() {
		c.hasClient.Store(true)
	}
	return c.hasClient.Load()
}

// expectClient looks for the client before its first message: it may close its ends soon after that.
func (c *candidate) expectClient() {
	if c.program.hasClientAbove() {
		c.hasClient.Store(true)
	}
}

// holder describes the gateway's end of a candidate's stdin.
type holder struct {
	isGateway bool
	isKnown   bool      // the gateway was alive at some look
	nextLook  time.Time // the zero time for none
	pause     time.Duration
}

const (
	firstHolderPause = 10 * time.Millisecond
	lastHolderPause  = 10 * time.Second
)

// lookForHolder finds out whether the gateway itself has the other end of a placed program's stdin: when the
// gateway has ended it is too late. While the gateway forks, it also has the ends that it gives to other
// children. So this looks again and again, and less and less often. It returns the time of the next look, or
// the zero time.
func (c *candidate) lookForHolder() (next time.Time) {
	h := &c.holder
	if c.group == nil || h.pause > lastHolderPause || time.Now().Before(h.nextLook) {
		return h.nextLook
	}
	gateway := c.program.client
	isGateway := c.group.HeldIn(gateway.ends.read(gateway.PID))
	if !gateway.exits() { // it had its descriptors still
		h.isGateway = isGateway
		h.isKnown = true
	}
	h.pause = max(2*h.pause, firstHolderPause)
	h.nextLook = time.Now().Add(h.pause)
	if h.pause > lastHolderPause {
		h.nextLook = time.Time{}
	}
	return h.nextLook
}

// wasHeldByGateway reports whether the gateway held the stdin of a placed program until it ended.
func (c *candidate) wasHeldByGateway() bool {
	if !c.holder.isKnown { // the gateway has ended before the first look
		return isAbandoned(c.program.pid)
	}
	return c.holder.isGateway
}

// commandsMost is how many command lines are remembered.
const commandsMost = 4096

// candidates are indexed by their stdin: a child with the same stdin is part of one.
type candidates struct {
	mu      sync.Mutex
	byStdin map[file]*candidate
	spoken  map[string]bool // command lines whose clients wrote MCP
	// unproven are the ids of groups of programs that are known by their name alone, or were left alone.
	unproven map[string]bool
}

func newCandidates() *candidates {
	return &candidates{
		byStdin: map[file]*candidate{}, spoken: map[string]bool{}, unproven: map[string]bool{},
	}
}

func (all *candidates) enter(c *candidate) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byStdin[c.program.stdin] = c
}

// remove forgets a candidate, and closes its pidfd.
func (all *candidates) remove(c *candidate) {
	all.mu.Lock()
	if all.byStdin[c.program.stdin] == c {
		delete(all.byStdin, c.program.stdin)
	}
	all.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isDecided = true
	_ = unix.Close(c.program.pidfd) // no data can be lost
}

// withStdin returns the candidate whose stdin is that file, or nil.
func (all *candidates) withStdin(stdin file) *candidate {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.byStdin[stdin]
}

// withGroup returns the candidate that a process is and that has a group, or nil.
func (all *candidates) withGroup(pid int) (found *candidate) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, c := range all.byStdin {
		if c.program.pid == pid && c.group != nil {
			found = c
		}
	}
	return found
}

// hasSpoken reports whether a client wrote MCP to the same command line before: a client that connects again
// starts the same command. It has one argument at least, for an interpreter alone runs whatever it reads.
func (all *candidates) hasSpoken(argv []string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(argv) > 1 && all.spoken[strings.Join(argv, "\x00")]
}

func (all *candidates) rememberSpoken(argv []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.spoken) < commandsMost {
		all.spoken[strings.Join(argv, "\x00")] = true
	}
}

// hasGroup reports whether a group is that of a candidate.
func (all *candidates) hasGroup(id string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.unproven[id]
}

// haveTag reports whether a tag is that of a candidate's group.
func (all *candidates) haveTag(tag freeze.Tag) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	for id := range all.unproven {
		if group.TagOf(id) == tag {
			return true
		}
	}
	return false
}

// addGroup records the group of a candidate. One that is left alone stays recorded.
func (all *candidates) addGroup(id string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.unproven[id] = true
}

// removeGroup forgets the group of a candidate that is a server from now on.
func (all *candidates) removeGroup(id string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.unproven, id)
}
