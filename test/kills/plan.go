// SPDX-License-Identifier: Apache-2.0

package kills

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// The moments at which a kill comes.
const (
	starting   = "start"     // the launcher was started less than startWithin ago
	running    = "running"   // the server has answered
	eofGrace   = "eof-grace" // the client has closed stdin, and the server ignores that
	termGrace  = "term"      // the launcher got SIGTERM, and the server ignores that
	takingOver = "take-over" // the launcher was killed just before
	frozenIdle = "idle"      // the server is frozen, because it is idle
)

const (
	startWithin = 20 * time.Millisecond  // a start takes less on a busy machine
	startEarly  = 4 * time.Millisecond   // and less on a quiet one: it hits one half of the starts
	anyMoment   = 20 * time.Millisecond  // of a state that lasts
	pairWithin  = 10 * time.Millisecond  // the second kill of a pair comes that soon
	grace       = 300 * time.Millisecond // each grace period, unless the start is a plain one
	// helperWithin is how long a kill of the helper waits for there to be one. A guard starts it 1 s after the
	// start. A kill without a helper counts as missed, and is judged like the others.
	helperWithin = 1250 * time.Millisecond
)

var moments = []string{starting, running, eofGrace, termGrace, takingOver, frozenIdle}

// A shape is a server. It prints "up" first, and echoes its stdin unless it ends at once.
type shape struct {
	name    string
	script  string // of sh, where $zoo is the program of that name
	moments []string
	// atEOF is the status of a server that ends with its stdin, "" for one that ignores its end.
	atEOF string
	deaf  bool // to SIGTERM
	// lingers: a member ignores SIGTERM, so that a stop takes a whole grace period.
	lingers bool
	// brief is the status of a server that ends by itself, at once.
	brief string
}

// forks starts a child each 10 ms for a second. None of them ends by itself within the test.
const forks = "(i=0; while [ $i -lt 100 ]; do i=$((i+1)); sleep 3600 & sleep 0.01; done) & exec cat"

var shapes = []shape{
	{name: "plain", script: `exec "$zoo" plain`, atEOF: "exit 0",
		moments: []string{starting, running, takingOver, frozenIdle}},
	{name: "setsid", script: `exec "$zoo" setsid`, atEOF: "exit 0", lingers: true,
		moments: []string{starting, running, takingOver, frozenIdle}},
	{name: "forks", script: forks, atEOF: "exit 0",
		moments: []string{starting, running, takingOver}},
	{name: "ignore-term", script: `exec "$zoo" ignore-term`, atEOF: "exit 0", deaf: true, lingers: true,
		moments: []string{running, termGrace, takingOver, frozenIdle}},
	{name: "ignore-eof", script: `exec "$zoo" ignore-eof`,
		moments: []string{running, eofGrace}},
	{name: "ignore-both", script: `exec "$zoo" ignore-both`, deaf: true, lingers: true,
		moments: []string{starting, running, eofGrace, termGrace, takingOver, frozenIdle}},
	{name: "children", script: `exec "$zoo" children-30`, deaf: true, lingers: true,
		moments: []string{starting, eofGrace, termGrace, takingOver}},
	{name: "brief", script: `exit 7`, brief: "exit 7",
		moments: []string{starting}},
}

// A cell is one row and column of the table.
type cell struct {
	victims []string // in this order
	moment  string
}

func (c cell) String() string { return c.victimNames() + "/" + c.moment }

func (c cell) victimNames() string { return strings.Join(c.victims, "+") }

// The victims, alone and in pairs. "guard guard" kills the next one, too. "stop" is no kill: an operator stops
// the server.
var rows = []string{
	"launcher", "guard", "helper", "client", "group", "tree",
	"guard launcher", "launcher guard", "launcher helper", "helper launcher", "guard helper", "helper guard",
	"guard guard", "helper helper", "guard client", "client guard", "client helper", "guard tree", "group guard",
	"stop", "guard stop", "helper stop", "launcher stop",
}

// allowed: there is a helper only where an event calls for a decision, and only one launcher to kill.
func (c cell) allowed() bool {
	switch c.moment {
	case takingOver:
		return !slices.Contains(c.victims, "launcher")
	case running, frozenIdle:
		i := slices.Index(c.victims, "helper")
		return i < 0 || i == 1 && c.victims[0] != "guard"
	}
	return true
}

// A plan has the cells in the order in which the kills are dealt to them.
type plan struct {
	table *Table
	seed  uint64
	cells []cell

	mu    sync.Mutex
	tried map[cellKey]int
	hit   map[cellKey]int // all victims were there
	swept map[cellKey]int // it took a sweep
	lost  int             // trees
}

type cellKey struct{ row, moment string }

func (c cell) key() cellKey { return cellKey{strings.Join(c.victims, " "), c.moment} }

// newPlan: starts have two places for each row, because most steps of a start happen once.
func (table *Table) newPlan(seed uint64) *plan {
	p := &plan{
		table: table,
		seed:  seed,
		tried: map[cellKey]int{},
		hit:   map[cellKey]int{},
		swept: map[cellKey]int{},
	}
	only := os.Getenv("TESTS_KILLS_CELL")
	for _, row := range rows {
		for _, moment := range append(slices.Clone(moments), starting) {
			c := cell{strings.Fields(row), moment}
			frozen := moment == frozenIdle && table.Backend.Groups == nil // without a group nothing is frozen
			chosen := only == "" || only == c.String() || only == c.victimNames()
			if c.allowed() && !frozen && chosen {
				p.cells = append(p.cells, c)
			}
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(p.cells), func(i, j int) { p.cells[i], p.cells[j] = p.cells[j], p.cells[i] })
	return p
}

// draw draws the kill with the number.
func (p *plan) draw(n int) *kill {
	k := &kill{
		table:  p.table,
		plan:   p,
		cell:   p.cells[n%len(p.cells)],
		rand:   rand.New(rand.NewPCG(p.seed, uint64(n)+1)),
		name:   fmt.Sprintf("kill-%d-%s", n, p.table.Name),
		killed: map[int]bool{},
	}
	// A second victim is there only as long as a stop takes.
	wantsTime := len(k.cell.victims) > 1 || k.cell.moment == takingOver
	lingers := wantsTime && k.rand.IntN(4) > 0
	var fit []shape
	for _, s := range shapes {
		if slices.Contains(s.moments, k.cell.moment) && (s.lingers || !lingers) {
			fit = append(fit, s)
		}
	}
	k.shape = fit[k.rand.IntN(len(fit))]
	switch k.cell.moment {
	case starting:
		k.plain = k.rand.IntN(2) == 0
	case running, takingOver:
		k.plain = k.rand.IntN(4) == 0
	}
	if p.table.NeverPlain {
		k.plain = false
	}
	return k
}

// count notes one kill in the table.
func (p *plan) count(k *kill) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := k.cell.key()
	p.tried[key]++
	if k.missed == 0 {
		p.hit[key]++
	}
	if k.swept {
		p.swept[key]++
	}
	if k.lost {
		p.lost++
	}
}

// String shows for each cell how many kills met all their victims, "+N" for kills that met one of them or
// none, and "s" for sweeps that were needed.
func (p *plan) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out strings.Builder
	var tried, hit, swept int
	fmt.Fprintf(&out, "kill table, %s, seed %d\n%-16s", p.table.Name, p.seed, "victims")
	for _, moment := range moments {
		fmt.Fprintf(&out, "%11s", moment)
	}
	for _, row := range rows {
		fmt.Fprintf(&out, "\n%-16s", row)
		for _, moment := range moments {
			key := cellKey{row, moment}
			fmt.Fprintf(&out, "%11s", mark(p.tried[key], p.hit[key], p.swept[key]))
			tried += p.tried[key]
			hit += p.hit[key]
			swept += p.swept[key]
		}
	}
	fmt.Fprintf(&out, "\n%d kills, %d met all their victims, %d needed a sweep", tried, hit, swept)
	if p.lost > 0 {
		fmt.Fprintf(&out, ", %d trees were lost with launcher and guard", p.lost)
	}
	out.WriteByte('\n')
	return out.String()
}

func mark(tried, hit, swept int) string {
	if tried == 0 {
		return "-"
	}
	text := fmt.Sprint(hit)
	if tried > hit {
		text += fmt.Sprint("+", tried-hit)
	}
	if swept > 0 {
		text += fmt.Sprint(" s", swept)
	}
	return text
}
