// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// An outfit is the state that a client has given to its server, as state/wear.c takes it.
type outfit struct {
	name string
	on   []string // the backends on which it can be worn; nil for all
	wear []string
	odd  []difference // beside those that there are always
	// unmarked: it has a limit of file locks, which mcpscope leaves as it is.
	unmarked bool
}

func outfits() []outfit {
	return []outfit{
		{name: "as most clients"},
		{name: "every attribute", wear: append(strings.Fields(attributes), "nice", niceness())},
		{name: "root's attributes", on: []string{"cgroup", "delegated", "tree", "systemd-system"}, wear: append(strings.Fields(rootsAttributes), "nice", niceness())},
		{name: "another user with capabilities", on: []string{"cgroup", "tree"}, wear: strings.Fields("directory / user 12345 ambient 1 ambient 10 ambient 12")},
		{name: "low limits", wear: limits(), unmarked: true},
		{name: "no new privileges", wear: []string{"nnp", "1"}},
		{name: "descriptors", wear: strings.Fields("open 3 open 7 copy 0 9 open 200")},
		{name: "closed descriptors", wear: strings.Fields("closed 0 closed 2"), odd: opened},
		{name: "ignored signals", wear: eachSignal("ignored")},
		{name: "blocked signals", wear: eachSignal("blocked")},
		{name: "an alarm", wear: []string{"alarm", "300"}, odd: []difference{noAlarm}},
	}
}

const (
	attributes = "directory /usr umask 027 ioprio 2 6 scheduler 3 slack 70000 personality 0040000 pages 1 " +
		"oom 900 dump 0x7b keyring mcpscope-test cpu 0"
	rootsAttributes = "securebits 1 bound 25 bound 21 group 4242 ioprio 3 0"
)

// niceness is that of this process, which a user may not lower, and at least 5: with 19 a server can starve for half a
// minute beside fork bombs.
func niceness() string {
	inverse, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(max(5, 20-inverse)) // getpriority(2), C library/kernel differences
}

// limits are below any that a client could have got itself, and above what a Go program needs.
func limits() []string {
	least := map[int][2]uint64{
		unix.RLIMIT_CPU: {1000, 2000}, unix.RLIMIT_FSIZE: {1e6, 2e6}, unix.RLIMIT_DATA: {4e9, 8e9}, unix.RLIMIT_STACK: {4 << 20, 8 << 20},
		unix.RLIMIT_CORE: {1, 2}, unix.RLIMIT_RSS: {3e8, 4e8}, unix.RLIMIT_NOFILE: {200, 300}, unix.RLIMIT_MEMLOCK: {3000, 4000},
		unix.RLIMIT_AS: {8e9, 16e9}, unix.RLIMIT_LOCKS: {300, 400}, unix.RLIMIT_SIGPENDING: {300, 400}, unix.RLIMIT_MSGQUEUE: {3000, 4000},
		unix.RLIMIT_NPROC: {900, 1000}, unix.RLIMIT_RTTIME: {1e8, 2e8},
	}
	var all []string
	for kind, l := range least {
		all = append(all, "limit", fmt.Sprint(kind), fmt.Sprint(l[0]), fmt.Sprint(l[1]))
	}
	return all
}

// eachSignal that can be ignored and blocked, but for 32 and 33, which the C library keeps.
func eachSignal(how string) []string {
	var all []string
	for n := 1; n <= 64; n++ {
		if sig := unix.Signal(n); sig != unix.SIGKILL && sig != unix.SIGSTOP && n != 32 && n != 33 {
			all = append(all, how, strconv.Itoa(n))
		}
	}
	return all
}

// State compares, field by field, what a server can ask the kernel about itself.
func State(t *testing.T, s Subject) {
	page, err := os.ReadFile("../../docs/reference/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outfits() {
		if o.on != nil && !slices.Contains(o.on, s.Name) {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			site := s.Site(t)
			client := site.Unique("client")
			without := show(t, s, site, client, o, bare)
			with := show(t, s, site, client, o, s.contained())
			differences := append(slices.Clone(always), o.odd...)
			if !o.unmarked {
				differences = append(differences, marked)
			}
			if s.Groups != nil {
				differences = append(differences, otherGroup)
			}
			compare(t, string(page), without, with, differences)
		})
	}
}

// show runs state/show.c, dressed, in one way.
func show(t *testing.T, s Subject, site *escape.Site, client string, o outfit, w way) map[string][]string {
	t.Helper()
	line := append(append([]string{s.Programs.Wear}, o.wear...), "--")
	line = append(line, w.line(s.Programs.Show, "", "two words", "a\nnewline", "\xff\xfe", "--backend", strings.Repeat("long", 10000))...)
	got := run(site, client, append([]string{"env", "TWICE=1", "EMPTY=", "MCPSCOPES=kept", "BYTES=\xff\n"}, line...))
	if got.Status != 0 {
		t.Fatalf("%s: %v", w.name, got.Status)
	}
	return fields(got.Stdout)
}

// fields are the values by field; some have more than one.
func fields(text string) map[string][]string {
	all := make(map[string][]string)
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all[field] = append(all[field], value)
	}
	return all
}
