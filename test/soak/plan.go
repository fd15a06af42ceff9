// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// lanes are the names that have a server each at a time.
const lanes = 16

// A Plan is a soak of one backend.
type Plan struct {
	Backend escape.Backend
	Program string // mcpscope
	Probe   string // e2e/probe
	Cycles  int    // in all lanes together
	// Orphans tells that a sweep finds the servers whose guards were killed.
	Orphans bool
	// Beside is where the servers' groups are, unless they are in the site.
	Beside string
	// Units counts the manager's units of servers, if there is a manager.
	Units func() int

	seed   uint64
	site   *escape.Site
	groups []string // the directories in which nothing may stay
	ends   []end
	mu     sync.Mutex
	count  map[string]int // cycles by end
}

// Cycles is how many to run, unless MCPSCOPE_SOAK_CYCLES says otherwise: few, or a tenth of
// the ten thousand.
func Cycles() int {
	if n, err := strconv.Atoi(os.Getenv("MCPSCOPE_SOAK_CYCLES")); err == nil {
		return n
	}
	if escape.Full() {
		return 1000
	}
	return 100
}

func newSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("MCPSCOPE_SOAK_SEED")
	if text == "" {
		return uint64(rand.Uint32())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("MCPSCOPE_SOAK_SEED: %v", err)
	}
	return seed
}

// Run soaks. It must have the process for itself: it counts its descriptors.
func (p *Plan) Run(t *testing.T) {
	t.Helper()
	p.seed, p.count, p.ends = newSeed(t), make(map[string]int), p.drawable(t)
	p.publish(t, fmt.Sprintf("soak, backend %s: seed %d", p.Backend.Name, p.seed))
	// Servers die by every signal there is: neither they nor their launchers shall dump core.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		t.Fatal(err)
	}
	if p.Backend.Hold != nil {
		p.Backend.Hold.Lock()
		defer p.Backend.Hold.Unlock()
	}
	p.site = p.Backend.Site(t)
	for lane := range lanes {
		p.site.Group(laneName(lane))
	}
	p.groups = []string{p.site.Dir}
	if p.Beside != "" {
		p.groups = append(p.groups, p.Beside)
	}
	p.mcpscope(t, p.site.Dir, "run", "--backend", p.Backend.Name, "--", "true") // makes the slice
	before := p.settled(t, time.Second, func(footprint) bool { return false })
	start := time.Now()
	p.spread(t)
	took := time.Since(start)
	p.mcpscope(t, p.site.Dir, "sweep")
	after := p.settled(t, patience, func(f footprint) bool { return f.within(before) })
	p.publish(t, fmt.Sprintf("  %d cycles in %.1f s: %v\n  before %v\n  after  %v",
		p.total(), took.Seconds(), p.count, before, after))
	p.wantFlat(t, before, after)
}

// spread runs the cycles, an equal number in every lane.
func (p *Plan) spread(t *testing.T) {
	t.Helper()
	t.Run("cycles", func(t *testing.T) {
		for lane := range lanes {
			t.Run(laneName(lane), func(t *testing.T) {
				t.Parallel()
				for n := range (p.Cycles + lanes - 1) / lanes {
					t.Run(strconv.Itoa(n), func(t *testing.T) { p.cycle(t, lane, n) })
				}
			})
		}
	})
}

func laneName(lane int) string { return fmt.Sprintf("name-%02d", lane) }

func (p *Plan) total() (n int) {
	for _, some := range p.count {
		n += some
	}
	return n
}

func (p *Plan) publish(t *testing.T, text string) {
	t.Helper()
	fmt.Println(text)
	if err := escape.AppendTable(text + "\n"); err != nil {
		t.Error(err)
	}
}

// mcpscope runs it in the group, with nothing on its stdin, and nothing to say on stderr.
func (p *Plan) mcpscope(t *testing.T, group string, args ...string) {
	t.Helper()
	said, err := escape.OpenMemory("stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd := p.site.Command(append([]string{p.Program}, args...)...)
	cmd.Stderr = said
	if err := escape.StartIn(group, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || escape.Contents(said) != "" {
		t.Errorf("%q ended with %v; stderr: %s", args, err, escape.Contents(said))
	}
}
