// SPDX-License-Identifier: Apache-2.0

// Package ablation holds the mechanisms of a stop and of transparency, and for each the change that takes it
// out of the product. make ablation builds the product with each change by go build -overlay, runs a choice
// of the tests of other packages, and writes the red ones to README.md. The product's files are not touched,
// nor imported.
package ablation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

const root = "../.."

// apply returns the changed files.
func apply(edits []edit) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range edits {
		if changed[e.file] == "" {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			changed[e.file] = string(text)
		}
		if n := strings.Count(changed[e.file], e.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, want once", e.file, e.old, n)
		}
		changed[e.file] = strings.Replace(changed[e.file], e.old, e.new, 1)
	}
	return changed, nil
}

// Each change still fits the source. Whether it compiles is seen by make ablation.
func TestChangesFit(t *testing.T) {
	for _, m := range slices.Concat(promises, protecting, unnoticed) {
		if _, err := apply(m.edits); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// overlay writes the changed files, and the list of them that go build reads.
func overlay(t *testing.T, edits []edit) (file string) {
	t.Helper()
	changed, err := apply(edits)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	write := func(name, text string) string {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	dir := t.TempDir()
	for name, text := range changed {
		original, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		list.Replace[original] = write(filepath.Join(dir, strings.ReplaceAll(name, "/", "_")), text)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return write(filepath.Join(dir, "overlay.json"), string(text))
}

// An outcome has names of tests and subtests that have no subtests themselves.
type outcome struct{ cells, red, swept []string }

// try runs tests against the product with the overlay, or as it is.
func (o *outcome) try(t *testing.T, r run, overlay string) {
	t.Helper()
	line := []string{"go", "test", "-json", "-vet=off", "-count=1", "-timeout=15m"}
	if !r.core {
		line = append(line, "-run="+r.pattern)
	}
	line = append(line, "./"+r.pkg)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	if r.whole {
		cmd.Env = append(cmd.Env, "TESTS_FULL=1")
	}
	out, err := cmd.CombinedOutput() // that tests fail is no error
	if o.read(out) == 0 {
		t.Fatalf("%s ran no test of %s: %v\n%s", r.pattern, r.pkg, err, out)
	}
}

// read reads what go test -json prints, and counts the tests in it. A test that did not end is red.
func (o *outcome) read(out []byte) int {
	ended := map[string]string{}
	var started []string
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil || e.Test == "" {
			continue
		}
		switch e.Action {
		case "run":
			started = append(started, e.Test)
		case "output":
			if strings.Contains(e.Output, escape.TookASweep) && !slices.Contains(o.swept, e.Test) {
				o.swept = append(o.swept, e.Test)
			}
		case "pass", "fail", "skip":
			ended[e.Test] = e.Action
		}
	}
	for _, test := range started {
		inner := slices.ContainsFunc(started,
			func(other string) bool { return strings.HasPrefix(other, test+"/") })
		if inner || ended[test] == "skip" || slices.Contains(o.cells, test) {
			continue
		}
		o.cells = append(o.cells, test)
		if ended[test] != "pass" {
			o.red = append(o.red, test)
		}
	}
	return len(started)
}

const head = `# Red without each mechanism

` + "`make ablation`" + ` makes this page. It builds mcpscope without each mechanism in turn, and runs the cells and tests
in which it could matter ([mechanisms.go](mechanisms.go)). ` + "`make test`" + ` checks that each change still fits the source.
The last column has up to three of the cells and tests that fail without the mechanism, or need a sweep. The tables are
not whole: a mechanism can be needed for cells that were not run.
`

const columns = "\n| without | in | red |\n|---|---|---|\n"

// TestAblation writes the page that TESTS_ABLATION names. With TESTS_ABLATION_ONLY it runs the mechanisms
// whose name matches, and keeps the other rows.
func TestAblation(t *testing.T) {
	file := os.Getenv("TESTS_ABLATION")
	only := regexp.MustCompile(os.Getenv("TESTS_ABLATION_ONLY"))
	if file == "" {
		t.Skip("it takes an hour: make ablation")
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(before)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
			rows[name] = line
		}
	}
	var whole outcome // of the product itself
	tried := map[run]bool{}
	unchanged := overlay(t, nil)
	for _, m := range slices.Concat(promises, protecting, unnoticed) {
		if !only.MatchString(m.name) {
			continue
		}
		var o outcome
		changed := overlay(t, m.edits)
		for _, r := range m.runs {
			if !tried[r] {
				whole.try(t, r, unchanged)
				tried[r] = true
			}
			o.try(t, r, changed)
		}
		o.red = append(o.red, slices.DeleteFunc(o.swept, func(test string) bool { return slices.Contains(whole.swept, test) })...)
		t.Logf("without %s: red of %d: %q", m.name, len(o.cells), o.red)
		rows[m.name] = m.row(o.red)
	}
	if len(whole.red) > 0 {
		t.Errorf("red with all mechanisms: %q", whole.red)
	}
	page := head
	list := func(title string, all []mechanism) {
		page += "\n## " + title + "\n" + columns
		for _, m := range all {
			if page += rows[m.name]; !strings.HasSuffix(rows[m.name], "` |\n") {
				t.Errorf("no test goes red without %s", m.name)
			}
		}
	}
	list("Each promise broken once, and what the core says", promises)
	list("Nothing survives a stop, and nothing else ends", protecting)
	list("The server does not notice", unnoticed)
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// row has the shortest name of each red table or test, three at most.
func (m mechanism) row(red []string) string {
	var files, examples []string
	for _, e := range m.edits {
		link := fmt.Sprintf("[%s](../../%s)", filepath.Base(e.file), e.file)
		if !slices.Contains(files, link) {
			files = append(files, link)
		}
	}
	shortest := map[string]string{}
	for _, name := range red {
		test, _, _ := strings.Cut(name, "/")
		if old := shortest[test]; old == "" || len(name) < len(old) {
			shortest[test] = name
		}
	}
	for _, test := range slices.Sorted(maps.Keys(shortest)) {
		examples = append(examples, "`"+strings.TrimPrefix(shortest[test], "Test")+"`")
	}
	return fmt.Sprintf("| %s | %s | %s |\n", m.name, strings.Join(files, ", "), strings.Join(examples[:min(len(examples), 3)], ", "))
}
