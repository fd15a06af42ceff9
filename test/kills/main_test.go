// SPDX-License-Identifier: Apache-2.0

// Package kills has the kill table: the processes that a kill can hit (launcher, guard, brain, client, and
// pairs of them) against the moments of a server's life. Each kill comes at a random moment within its cell.
//
// A killed guard or brain changes nothing for the server, because the launcher starts another guard and the
// guard another brain. After every other kill nothing is left: no process, no directory. Only if launcher and
// guard were both killed may that take a sweep.
//
// The seed and the number of a kill decide all that is drawn, so one kill can be repeated:
// MCPSCOPE_KILLS_SEED=N go test -run 'TestKillTable/.*/.*/^17$' ./test/kills, with the same MCPSCOPE_KILLS.
package kills

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// guardIsRenewed: a launcher whose guard was killed starts another one. Without that it kills its server and
// exits with 125.
const guardIsRenewed = true

// lanes are how many servers there are at a time. Most of the time they wait for a grace period to end.
const lanes = 6

var programs struct {
	escape.Programs
	mcpscope string
}

func TestMain(m *testing.M) {
	bed.Parallel(lanes)
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		programs.Programs = escape.ProgramsIn(dir)
		programs.mcpscope = filepath.Join(dir, "mcpscope")
		return nil
	}))
}

// seed is MCPSCOPE_KILLS_SEED, or a new one.
func seed() uint64 {
	text := os.Getenv("MCPSCOPE_KILLS_SEED")
	if text == "" {
		return uint64(rand.Uint32())
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("MCPSCOPE_KILLS_SEED: " + err.Error())
	}
	return n
}

// number is MCPSCOPE_KILLS, or depends on the size of the run. There are about a hundred cells.
func number() int {
	if escape.Full() {
		return escape.Number("MCPSCOPE_KILLS", 600)
	}
	return escape.Number("MCPSCOPE_KILLS", 60)
}

func TestKillTable(t *testing.T) {
	p := newPlan(seed())
	kills := number()
	t.Run("kills", func(t *testing.T) {
		for lane := range lanes {
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

// runLane makes each kill whose number belongs to the lane. They share a world, one after the other. Nothing
// of a kill is left when the next starts, so each process in the world is known.
func (p *plan) runLane(t *testing.T, lane, kills int) {
	world := escape.NewWorld(t, programs.Programs)
	clients := world.Group("clients")
	for n := lane; n < kills; n += lanes {
		clean := t.Run(strconv.Itoa(n), func(t *testing.T) {
			defer escape.Slots.Take(1)()
			site := *world.Site
			site.T = t
			p.draw(n).run(t, &site, clients)
		})
		if !clean {
			return // what is left would be taken for the next server's
		}
	}
}
