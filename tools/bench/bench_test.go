// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package bench compares mcpscope with a bare start, with bubblewrap and with systemd-run, side by side in
// one run. It needs a real systemd, so it runs in a booted host (test/host), and only if go test runs
// benchmarks. It asserts nothing. Each row has the ratio of two medians and both medians.
package bench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

func TestMain(m *testing.M) {
	host.Stage()
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // which needs no host
	}
	host.Main(m, host.Options{Users: true, Build: build})
}

// build makes mcpscope as `make build` does, where none is installed for the tests.
func build(dir string) error {
	return escape.Build(dir, map[string][]string{
		"server": escape.CC("server/server.c"),
		"floor":  escape.CC("floor/floor.c"),
	})
}

// A table has the measurements of one part: a value of each contender, in one unit.
type table struct {
	title, unit string
	rows        []row
	skipped     []string
}

type row struct {
	name   string
	values []float64
}

func (t *table) add(name string, value float64) {
	i := slices.IndexFunc(t.rows, func(r row) bool { return r.name == name })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, row{name: name})
	}
	t.rows[i].values = append(t.rows[i].values, value)
}

func (r row) median() float64 {
	sorted := slices.Sorted(slices.Values(r.values))
	return sorted[len(sorted)/2]
}

// print compares each row with the first one, and with all other programs that precede it.
func (t *table) print() {
	fmt.Printf("\n### %s\n\n", t.title)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	var bases []row
	fmt.Fprint(w, "| \t| median\t| n\t| ratio\t|\n| ---\t| ---\t| ---\t| ---\t|\n")
	for i, r := range t.rows {
		var ratios []string
		for _, b := range bases {
			ratios = append(ratios, fmt.Sprintf("%.2f × %s (%s)", r.median()/b.median(), b.name,
				digits(b.median())))
		}
		fmt.Fprintf(w, "| %s\t| %s %s\t| %d\t| %s\t|\n", r.name, digits(r.median()), t.unit, len(r.values),
			strings.Join(ratios, ", "))
		if i == 0 || !strings.HasPrefix(r.name, "run") && !strings.HasPrefix(r.name, "floor") {
			bases = append(bases, r)
		}
	}
	_ = w.Flush() // to stdout
	for _, skip := range t.skipped {
		fmt.Printf("\nSKIP %s\n", skip)
	}
}

// digits is as exact as such figures are.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func BenchmarkSideBySide(b *testing.B) {
	host.Current(b)
	fmt.Println(machine())
	all, skipped := able(b, contenders(b))
	for _, part := range []struct {
		name    string
		measure func(*testing.B, []contender) []*table
	}{{"start", start}, {"kill", kill}, {"idle", idle}} {
		b.Run(part.name, func(b *testing.B) { // -bench SideBySide/kill measures one of them
			tables := part.measure(b, all)
			b.ReportMetric(0, "ns/op") // the duration of the part says nothing
			tables[0].skipped = skipped
			for _, t := range tables {
				t.print()
			}
		})
	}
}

// machine has the facts that the figures depend on.
func machine() string {
	var u unix.Utsname
	_ = unix.Uname(&u) // it cannot fail
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("Linux %s, %d CPUs; load %s", unix.ByteSliceToString(u.Release[:]), runtime.NumCPU(), load)
}

// pause is longer than any state that the last start has left in the kernel: moving a process to another
// cgroup is cheap only shortly after the last move.
const pause = 600 * time.Millisecond

// start measures the time to the first byte, and that of a server which exits at once.
func start(b *testing.B, all []contender) []*table {
	first := &table{title: "Start to first byte, back to back", unit: "ms"}
	idle := &table{title: "Start to first byte, after 0.6 s of idle", unit: "ms"}
	whole := &table{title: "Start to exit of a server that exits at once", unit: "ms"}
	for round := range 41 {
		order := rand.Perm(len(all)) // a manager that has just made a scope is busy for a while
		if round == 0 {
			slices.Sort(order) // that of the tables
		}
		for _, i := range order {
			c := all[i]
			first.add(c.name, milliseconds(c.once(b)))
			whole.add(c.name, milliseconds(c.whole(b)))
			if round < 15 {
				time.Sleep(pause)
				idle.add(c.name, milliseconds(c.once(b)))
			}
		}
	}
	return []*table{first, idle, whole}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
