// SPDX-License-Identifier: Apache-2.0

// Package kills has the kill table: the processes that a kill can hit (launcher, guard, helper, client, and
// pairs of them) against the moments of a server's life. Each kill comes at a random moment within its cell.
//
// A killed guard or helper changes nothing for the server, because the launcher starts another guard and the
// guard another helper. After every other kill nothing is left: no process, no directory. Only if launcher and
// guard were both killed may that take a sweep, which does not find a tree.
//
// The seed and the number of a kill decide all that is drawn, so one kill can be repeated:
// TESTS_KILLS_SEED=N go test -run 'TestKillTable/cgroup/.*/.*/^17$' ./test/kills, with the same TESTS_KILLS.
// TESTS_KILLS_CELL=guard+guard/start makes all kills those of one cell, guard+guard those of a row.
package kills

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A Table is the kill table of one backend.
type Table struct {
	Name    string
	Backend escape.Backend
	Program string // mcpscope
	// Clients returns the group of the clients, which is new in the site if Clients is nil.
	Clients func(*escape.Site) string
	// Lanes are how many servers there are at a time. Most of the time they wait for a grace period to end.
	Lanes int
	// Kills is how many there are in the core.
	Kills int
	// NeverPlain: a start without flags would choose another backend.
	NeverPlain bool
	// SweepCleans: a manager that has missed the end of a scope's first process keeps the empty scope until a
	// sweep.
	SweepCleans bool
}

// guardIsRenewed: a launcher whose guard was killed starts another one. Without that it kills its server and
// exits with 125.
const guardIsRenewed = true

// seed is TESTS_KILLS_SEED, or a new one.
func seed() uint64 {
	text := os.Getenv("TESTS_KILLS_SEED")
	if text == "" {
		return uint64(rand.Uint32())
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("TESTS_KILLS_SEED: " + err.Error())
	}
	return n
}

// number is TESTS_KILLS, or depends on the size of the run. There are about a hundred cells.
func (table *Table) number() int {
	if escape.Full() {
		return escape.Number("TESTS_KILLS", 10*table.Kills)
	}
	return escape.Number("TESTS_KILLS", table.Kills)
}

// Run deals kills to the cells, and judges each of them.
func (table *Table) Run(t *testing.T) {
	p := table.newPlan(seed())
	if len(p.cells) == 0 {
		t.Skip("this table has no such cell: ", os.Getenv("TESTS_KILLS_CELL"))
	}
	kills := table.number()
	t.Run("kills", func(t *testing.T) {
		for lane := range table.Lanes {
			t.Run(fmt.Sprint("lane-", lane), func(t *testing.T) {
				t.Parallel()
				p.runLane(t, lane, kills)
			})
		}
	})
	t.Log(p)
	if err := escape.AppendTable("\n" + p.String()); err != nil {
		t.Error(err)
	}
}

// runLane makes each kill whose number belongs to the lane. They share a site, one after the other. Nothing
// of a kill is left when the next starts, so each process in the site is known.
func (p *plan) runLane(t *testing.T, lane, kills int) {
	shared := p.table.Backend.Site(t)
	clients := p.table.clients(shared)
	for n := lane; n < kills; n += p.table.Lanes {
		clean := t.Run(strconv.Itoa(n), func(t *testing.T) {
			defer escape.Slots.Take(1)()
			site := *shared
			site.T = t
			p.draw(n).run(t, &site, clients)
		})
		if !clean {
			return // what is left would be taken for the next server's
		}
	}
}

func (table *Table) clients(s *escape.Site) string {
	if table.Clients != nil {
		return table.Clients(s)
	}
	return s.Group("clients")
}
