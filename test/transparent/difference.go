// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A difference is one that a server can see, and that the page has.
type difference struct {
	field string
	row   string // of the page: the first cell
	// explains reports whether it is this difference, and nothing more.
	explains func(bare, contained []string) bool
}

// always are those that every server sees.
var always = []difference{
	{"parent", "parent", func(_, contained []string) bool { return contained[0] == "mcpscope" }},
	{"parent death signal", "`PR_SET_PDEATHSIG`", nowKills},
	{"env", "environment", func(bare, contained []string) bool {
		last := len(contained) - 1
		return slices.Equal(bare, contained[:last]) && strings.HasPrefix(contained[last], "MCPSCOPE_ID=")
	}},
}

// nowKills explains a server that the kernel kills with its launcher.
func nowKills(_, contained []string) bool { return contained[0] == strconv.Itoa(int(unix.SIGKILL)) }

// marked: a client that has set the limit itself keeps it.
var marked = difference{"limits[11]", "limit of file locks", func(bare, contained []string) bool {
	was := strings.Fields(bare[0])
	is := strings.Fields(contained[0])
	return slices.Equal(was[:4], []string{"Max", "file", "locks", "unlimited"}) && is[3] != "unlimited" && slices.Equal(was[4:], is[4:])
}}

var otherGroup = difference{"cgroup", "cgroup", func(_, contained []string) bool { return strings.Contains(contained[0], "/mcp-") }}

// Effects of the Go runtime, before main, on a program that it starts. A launcher without it still opens
// descriptors, and has the alarm.
var (
	opened = []difference{
		{"fd/0", closedAtStart, nowIs("/dev/null")}, {"flags of fd 0", closedAtStart, nowIs(readWrite)},
		{"fd/2", closedAtStart, nowIs("/dev/null")}, {"flags of fd 2", closedAtStart, nowIs(readWrite)},
	}
	noAlarm = difference{"alarm pending", "alarm", func(bare, contained []string) bool { return bare[0] == "1" && contained[0] == "0" }}
)

const closedAtStart = "stdin, stdout or stderr closed at start"

var readWrite = strconv.Itoa(unix.O_RDWR | largeFile)

// largeFile is a flag of fcntl(2) on each file on 64 bits, where package unix has 0 for O_LARGEFILE.
const largeFile = 0o100000

// nowIs explains what there was not when bare.
func nowIs(value string) func(bare, contained []string) bool {
	return func(bare, contained []string) bool { return bare == nil && slices.Equal(contained, []string{value}) }
}

// compare wants exactly these differences, and each of them on the page.
func compare(t *testing.T, page string, bare, contained map[string][]string, want []difference) {
	t.Helper()
	if len(bare) < 100 {
		t.Errorf("only %d fields: this compares nothing", len(bare))
	}
	explained := make(map[string]bool)
	for _, d := range want {
		explained[d.field] = true
		if slices.Equal(bare[d.field], contained[d.field]) || !d.explains(bare[d.field], contained[d.field]) {
			t.Errorf("%s: bare %q, contained %q; on the page as %q", d.field, bare[d.field], contained[d.field], d.row)
		}
		if !strings.Contains(page, "\n| "+d.row+" |") {
			t.Errorf("the page on differences has no row %q", d.row)
		}
	}
	for _, all := range []map[string][]string{bare, contained} {
		for field := range all {
			if !explained[field] && !slices.Equal(bare[field], contained[field]) {
				explained[field] = true
				t.Errorf("%s: bare %q, contained %q", field, bare[field], contained[field])
			}
		}
	}
}
