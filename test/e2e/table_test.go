package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A table collects the results of the cells, to be printed as modes × ends.
type table struct {
	title   string
	program string
	modes   []mode
	ends    []end
	mu      sync.Mutex
	cells   map[[2]string]result
}

func newTable(title, program string, modes []mode, ends []end) *table {
	return &table{title: title, program: program, modes: modes, ends: ends, cells: make(map[[2]string]result)}
}

func (t *table) put(mode, end string, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[[2]string{mode, end}] = r
}

// publish prints the table, and also appends it to the file that MCPSCOPE_E2E_TABLE
// names: go test swallows what a test prints that passes.
func (t *table) publish(tb testing.TB) {
	tb.Helper()
	fmt.Print(t)
	if path := os.Getenv("MCPSCOPE_E2E_TABLE"); path != "" {
		if err := appendTo(path, t.String()); err != nil {
			tb.Error(err)
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// String shows "." for a cell with nothing left, "s" for one where that took a sweep, "-" for one that did not run to
// its end, and else the number of members left.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s\n%-18s", t.title, "members left")
	for _, e := range t.ends {
		fmt.Fprintf(&out, "%7s", e.name)
	}
	var sum result
	clean, swept := 0, 0
	for _, m := range t.modes {
		fmt.Fprintf(&out, "\n%-18s", m.name)
		for _, e := range t.ends {
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
