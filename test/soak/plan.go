// SPDX-License-Identifier: Apache-2.0

// Package soak runs servers by the thousand, several names at a time, with ends drawn at random.
// Afterwards the host has no more processes, groups and descriptors than before. Every exit status on the way
// is predicted.
//
// The seed, the lane and the number of the cycle decide what is drawn. So one cycle can be repeated:
// TESTS_SOAK_SEED=N go test -run 'TestSoak$/cycles/name-03/^17$'.
package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// lanes are the names that have a server each at a time.
const lanes = 16

// A Plan is a soak of one backend.
type Plan struct {
	Backend escape.Backend
	Program string // mcpscope
	Probe   string // test/transparent's
	Cycles  int    // in all lanes together
	// Orphans reports that a sweep finds the servers whose launcher and guard were killed.
	Orphans bool
	// Beside is where the servers' groups are, unless they are in the site.
	Beside string
	// Units counts the manager's units of servers, if there is a manager.
	Units func() int

	seed  uint64
	site  *escape.Site
	mu    sync.Mutex
	count map[string]int // cycles by end
}

// Cycles is TESTS_SOAK_CYCLES, or few, or a tenth of the ten thousand.
func Cycles() int {
	if escape.Full() {
		return escape.Number("TESTS_SOAK_CYCLES", 1000)
	}
	return escape.Number("TESTS_SOAK_CYCLES", 100)
}

// Run soaks. It must have the process for itself: it counts its descriptors.
func (p *Plan) Run(t *testing.T) {
	t.Helper()
	p.count = map[string]int{}
	if _, err := fmt.Sscan(os.Getenv("TESTS_SOAK_SEED"), &p.seed); err != nil {
		p.seed = uint64(rand.Uint32())
	}
	// Servers die by every signal there is, and shall not dump core.
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
	p.mcpscope(t, p.site.Dir, "run", "--backend", p.Backend.Name, "--", "true") // makes the slice
	p.flat(t, func() {
		t.Run("cycles", p.spread)
		p.mcpscope(t, p.site.Dir, "sweep", "--quiet")
	})
	text := fmt.Sprintf("soak, backend %s, seed %d: %v\n", p.Backend.Name, p.seed, p.count)
	t.Log(text)
	if err := escape.AppendTable(text); err != nil {
		t.Error(err)
	}
}

// spread runs the cycles, an equal number in every lane.
func (p *Plan) spread(t *testing.T) {
	ends := p.ends(t)
	for lane := range lanes {
		t.Run(laneName(lane), func(t *testing.T) {
			t.Parallel()
			for n := range (p.Cycles + lanes - 1) / lanes {
				t.Run(strconv.Itoa(n), func(t *testing.T) { p.cycle(t, lane, n, ends) })
			}
		})
	}
}

func laneName(lane int) string { return fmt.Sprintf("name-%02d", lane) }

// mcpscope runs it in the group. It has to be silent.
func (p *Plan) mcpscope(t *testing.T, group string, args ...string) {
	t.Helper()
	o, err := escape.Finish(group, p.site.Command(append([]string{p.Program}, args...)...))
	if err != nil || o.Status != 0 || o.Stderr != "" {
		t.Errorf("%q ended with %+v, %v", args, o, err)
	}
}
