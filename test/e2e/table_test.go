package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A table collects the results of the cells, to be printed as modes × ends.
type table struct {
	modes []mode
	mu    sync.Mutex
	cells map[[2]string]result
}

func newTable(modes []mode) *table {
	return &table{modes: modes, cells: make(map[[2]string]result)}
}

func (t *table) put(mode, end string, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[[2]string{mode, end}] = r
}

// publish prints the table, and also puts it into the file that
// MCPSCOPE_E2E_TABLE names: go test swallows what a test prints that passes.
func (t *table) publish(tb testing.TB) {
	tb.Helper()
	fmt.Print(t)
	if path := os.Getenv("MCPSCOPE_E2E_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(t.String()), 0o644); err != nil {
			tb.Error(err)
		}
	}
}

// String shows "." for a cell with nothing left, "s" for one where that took a sweep, "-" for one that did not run to
// its end, and else the number of members left.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "%-18s", "members left")
	for _, e := range ends {
		fmt.Fprintf(&out, "%7s", e.name)
	}
	var sum result
	clean, swept := 0, 0
	for _, m := range t.modes {
		fmt.Fprintf(&out, "\n%-18s", m.name)
		for _, e := range ends {
			r, ran := t.cells[[2]string{m.name, e.name}]
			fmt.Fprintf(&out, "%7s", mark(r, ran))
			sum.members += r.members
			sum.left += r.left
			sum.bystandersDead += r.bystandersDead
			if ran && r.left == 0 {
				clean++
			}
			if r.swept {
				swept++
			}
		}
	}
	fmt.Fprintf(&out, "\n%d cells, %d with nothing left; %d members registered, %d left; %d bystanders dead; %d needed a sweep\n",
		len(t.cells), clean, sum.members, sum.left, sum.bystandersDead, swept)
	return out.String()
}

func mark(r result, ran bool) string {
	switch {
	case !ran:
		return "-"
	case r.swept && r.left == 0:
		return "s"
	case r.left == 0:
		return "."
	}
	return fmt.Sprint(r.left)
}

// measure is judge for a run without mcpscope: it counts and asserts nothing.
func (c *cell) measure() {
	c.result.left = c.members.untilDead(1500 * time.Millisecond)
	c.result.members = c.members.count()
	for _, b := range c.bystanders {
		if !b.lives() {
			c.result.bystandersDead++
		}
	}
}
