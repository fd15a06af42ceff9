// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/pace"
)

// A Table is modes × ends on one backend.
type Table struct {
	Title   string
	Name    string // of its subtest, by default the backend's
	Program string // mcpscope
	Backend Backend
	Modes   []Mode
	Ends    []End

	mu    sync.Mutex
	cells map[[2]string]Result
	began time.Time
}

// A Result is the outcome of a cell.
type Result struct {
	Members, Left, BystandersDead int
	Swept                         bool // it took a sweep
	Exempt                        bool // some are known to be left
}

// Fill runs every cell and prints the table.
func (t *Table) Fill(tb *testing.T) {
	t.fill(tb, t.escape, t.refused)
}

// FillWith is Fill for servers that are started in another way than by run: cell starts one, stops
// it and judges. A mode that is refused has no cells.
func (t *Table) FillWith(tb *testing.T, cell func(*testing.T, Mode, End) Result) {
	t.fill(tb, func(tb *testing.T, m Mode, e End) {
		tb.Parallel()
		defer Slots.Take(m.weight)()
		t.put(m, e, cell(tb, m, e))
	}, func(*testing.T, Mode) {})
}

func (t *Table) fill(tb *testing.T, cell func(*testing.T, Mode, End), refused func(*testing.T, Mode)) {
	t.cells = make(map[[2]string]Result)
	t.began = time.Now()
	tb.Run(cmp.Or(t.Name, t.Backend.Name), func(inner *testing.T) {
		for _, m := range t.Modes {
			ends := slices.DeleteFunc(slices.Clone(t.Ends), func(e End) bool { return !t.chosen(inner, m, e) })
			if t.Backend.Refused[m.Name] != nil && len(ends) > 0 {
				inner.Run(m.Name+"/refused", func(tb *testing.T) { refused(tb, m) })
				continue
			}
			for _, e := range ends {
				inner.Run(m.Name+"/"+e.Name, func(tb *testing.T) {
					defer redNotOver(tb)
					cell(tb, m, e)
				})
			}
		}
	})
	if len(t.cells) > 0 {
		t.publish(tb)
	}
}

// redNotOver keeps a panic in one cell from ending all others.
func redNotOver(tb *testing.T) {
	if why := recover(); why != nil {
		tb.Errorf("panic: %v\n%s", why, debug.Stack())
	}
}

func (t *Table) escape(tb *testing.T, m Mode, e End) {
	tb.Parallel()
	if bare && e.KillsGuard {
		return // without mcpscope there is no guard
	}
	defer Slots.Take(m.weight)()
	t.Backend.hold(tb)
	c := t.begin(tb, m, e)
	c.do()
	if bare {
		c.measure()
	} else {
		c.judge()
		c.alone()
	}
	t.put(m, e, c.result)
}

func (t *Table) begin(tb *testing.T, m Mode, e End) *Cell {
	tb.Helper()
	defer t.Backend.starting()()
	c := newCell(tb, t.Backend, t.Program, m, e)
	c.up()
	return c
}

// refused checks that the mode fails here, for the known reason.
func (t *Table) refused(tb *testing.T, m Mode) {
	tb.Parallel()
	if bare {
		return
	}
	defer Slots.Take(m.weight)()
	t.Backend.hold(tb)
	c := newCell(tb, t.Backend, t.Program, m, Ends()[0])
	want := t.Backend.Refused[m.Name].Error()
	if err := c.members.UntilReady(Patience); err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
		tb.Errorf("%v, want %q: then the cells of this mode can be had", err, want)
	}
	c.Client.Tell("close")
	c.deadline = pace.Now().Add(Patience)
	c.judgeGuards()
	c.judgeBystanders()
	c.judgeGroups()
	c.alone()
}

func (t *Table) put(m Mode, e End, r Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[[2]string{m.Name, e.Name}] = r
}

// tableEnv names a file to which tables are appended: go test swallows what a test prints
// that passes.
const tableEnv = "TESTS_TABLE"

// TableFiles returns the files that tables are appended to: a test host must make them writable.
func TableFiles() []string {
	if file := os.Getenv(tableEnv); file != "" {
		return []string{file}
	}
	return nil
}

// publish prints the table.
func (t *Table) publish(tb testing.TB) {
	tb.Helper()
	if len(TableFiles()) == 0 {
		fmt.Print(t)
	} else if err := AppendTable(t.String()); err != nil { // not among what a failed test says
		tb.Error(err)
	}
}

// AppendTable creates the file if it does not exist.
func AppendTable(text string) error {
	path := os.Getenv(tableEnv)
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// String shows "." for a cell with nothing left, "s" for one where that took a sweep, "-"
// for one that did not run to its end or can't be had here, and else the number of
// members left: in parentheses where some are known to be.
func (t *Table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s, backend %s\n%-18s", t.Title, t.Backend.Name, "members left")
	for _, e := range t.Ends {
		fmt.Fprintf(&out, "%*s", width(e), e.Name)
	}
	for _, m := range t.Modes {
		fmt.Fprintf(&out, "\n%-18s", m.Name)
		for _, e := range t.Ends {
			r, ran := t.cells[[2]string{m.Name, e.Name}]
			fmt.Fprintf(&out, "%*s", width(e), mark(r, ran))
		}
	}
	fmt.Fprintf(&out, "\n%v in %.1f s\n", t.sum(), time.Since(t.began).Seconds())
	return out.String()
}

func width(e End) int { return max(7, len(e.Name)+1) }

func mark(r Result, ran bool) string {
	switch {
	case !ran:
		return "-"
	case r.Swept && r.Left == 0:
		return "s"
	case r.Left == 0:
		return "."
	case r.Exempt:
		return fmt.Sprintf("(%d)", r.Left)
	}
	return fmt.Sprint(r.Left)
}

// A sum has the totals of a table's cells.
type sum struct{ cells, clean, exempt, swept, members, left, known, bystandersDead int }

func (t *Table) sum() sum {
	s := sum{cells: len(t.cells)}
	for _, r := range t.cells {
		s.members += r.Members
		s.bystandersDead += r.BystandersDead
		if r.Exempt {
			s.exempt++
			s.known += r.Left
		} else {
			s.left += r.Left
		}
		if r.Left == 0 {
			s.clean++
		}
		if r.Swept {
			s.swept++
		}
	}
	return s
}

func (s sum) String() string {
	return fmt.Sprintf("%d cells, %d with nothing left, %d exempt; %d members registered, %d left, and %d in the exempt cells; "+
		"%d bystanders dead; %d needed a sweep", s.cells, s.clean, s.exempt, s.members, s.left, s.known, s.bystandersDead, s.swept)
}
