// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// result is what came of a mechanism's absence.
type result struct {
	mechanism
	outcome
}

// tables are the tests whose subtests are cells; those of other packages and names are tests.
var tables = regexp.MustCompile(`^Test(Escape|Faults|Transparent|Terminal)`)

// lost tells whether something went red without it, or needed help that it does not need otherwise.
func (r result) lost(whole outcome) bool { return len(r.Red) > 0 || len(r.newlySwept(whole)) > 0 }

// newlySwept are the cells that needed a sweep, and did not with all mechanisms.
func (r result) newlySwept(whole outcome) []string {
	return slices.DeleteFunc(slices.Clone(r.Swept), func(cell string) bool { return slices.Contains(whole.Swept, cell) })
}

// split tells cells of tables from named tests, of which it has each once.
func split(red []string) (cells, named []string) {
	for _, test := range red {
		if tables.MatchString(test) {
			cells = append(cells, test)
		} else if top, _, _ := strings.Cut(test, "/"); !slices.Contains(named, top) {
			named = append(named, top)
		}
	}
	slices.SortFunc(cells, func(a, b string) int { return simpler(a) - simpler(b) })
	slices.Sort(named)
	return cells, named
}

// simpler is less for a cell that is the better example: its name is shorter.
func simpler(cell string) int { return len(strings.TrimPrefix(cell, "TestEscape/")) }

// page is the whole page.
func page(all []result, whole outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What goes red without each mechanism

`+"`make ablation`"+` makes this page. For each mechanism it builds mcpscope without it, by a change of one or two places that `+"`go build -overlay`"+`
takes in, and runs a choice of the tests against that. The changes, and which tests, are in [mechanisms.go](../../test/ablation/mechanisms.go);
`+"`make test`"+` checks that each change still fits the source and compiles.

Every mechanism meets the same %d cells of the escape table (%s
against the ends %s, on the backends cgroup and tree), and those cells and tests beside them in which it could matter. The tables are
thus not whole, and a mechanism may be needed for cells that were not run.

*Cells* are cells of the tables of escapes, faults and transparency, and subtests of others. *Red* is how many of them fail, or do not end, without the
mechanism. What a cell waits for has to come within %s s here, which is less than the tests grant otherwise. With all mechanisms all %d cells that were run
here are green. Linux %s, systemd %s, as root, on a machine with two processors.

| without | in | cells | red | for example | tests that go red |
|---|---|---|---|---|---|
`, 2*len(commonModes)*len(commonEnds), strings.Join(commonModes, ", "), strings.Join(commonEnds, ", "), patienceHere, whole.Cells, release(), manager())
	for _, r := range all {
		if r.lost(whole) {
			b.WriteString(r.row(whole))
		}
	}
	b.WriteString("\nA name of a cell is that of its test, its way to stay alive or point, and its end or fault.\n\n## Lost nothing\n\n" + nothing)
	b.WriteString("| without | in | cells | why it is kept |\n|---|---|---|---|\n")
	for _, r := range all {
		if !r.lost(whole) {
			fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", r.name, r.where(), r.Cells, r.kept)
		}
	}
	return b.String()
}

const nothing = `No cell and no test that was run needs one of these alone. Where another mechanism does the same, the table above has both taken out at once.

`

func (r result) row(whole outcome) string {
	cells, named := split(r.Red)
	example := ""
	if len(cells) > 0 {
		example = "`" + strings.TrimPrefix(strings.ReplaceAll(cells[0], "/cells/", "/"), "Test") + "`"
	}
	for i, name := range named {
		named[i] = strings.TrimPrefix(name, "Test")
	}
	if len(named) > namedMost {
		named = append(named[:namedMost], fmt.Sprintf("%d more", len(named)-namedMost))
	}
	red := fmt.Sprint(len(r.Red))
	if n := len(r.newlySwept(whole)); n > 0 {
		red += fmt.Sprintf("; %d need a sweep", n)
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %s | %s |\n", r.name, r.where(), r.Cells, red, example, strings.Join(named, ", "))
}

// namedMost is what fits a table.
const namedMost = 3

// where links to the files that are changed.
func (r result) where() string {
	var all []string
	for _, e := range r.edits {
		if link := fmt.Sprintf("[%s](%s/%s)", path.Base(e.file), root, e.file); !slices.Contains(all, link) {
			all = append(all, link)
		}
	}
	return strings.Join(all, ", ")
}

// manager is the version of systemd.
func manager() string {
	out, err := exec.Command("systemctl", "--version").Output()
	if f := strings.Fields(string(out)); err == nil && len(f) > 1 {
		return f[1]
	}
	return "?"
}

// release is the kernel's.
func release() string {
	var u unix.Utsname
	_ = unix.Uname(&u) // it can't fail
	parts := strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
