// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promises are the last column of test/escape/core.txt.
var promises = strings.Fields("survives bystander honest transparent roof standalone visible idle")

// Each line of the list of core tests names a test that exists, and a promise. Otherwise a test that is renamed leaves
// the core, and nothing shows that.
func TestCoreList(t *testing.T) {
	text, err := os.ReadFile("../escape/core.txt")
	if err != nil {
		t.Fatal(err)
	}
	holders := map[string]int{}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 3 || !slices.Contains(promises, fields[2]) {
			t.Errorf("%q: want a package, a test and one of %q", line, promises)
			continue
		}
		pkg, name := fields[0], fields[1]
		if seen[pkg+" "+name] {
			t.Errorf("%s %s is there twice", pkg, name)
		}
		seen[pkg+" "+name] = true
		holders[fields[2]]++
		if !isTest(t, pkg, name) {
			t.Errorf("%s %s: there is no such test", pkg, name)
		}
	}
	for _, promise := range promises {
		if holders[promise] == 0 {
			t.Errorf("no test of the core holds the promise %q", promise)
		}
	}
}

// isTest reports whether a package has a test of that name. A part of a test is a script, a document, or a cell of a
// table, which escape.Table knows alone.
func isTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	test, part, _ := strings.Cut(name, "/")
	function := regexp.MustCompile(`(?m)^func ` + test + `\(`)
	files, err := filepath.Glob(filepath.Join("..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && function.Match(text)
	})
	if test == "TestWeek" || test == "TestScripts" {
		_, err := os.Stat(filepath.Join("..", pkg, "testdata", part+".txtar"))
		found = found && err == nil
	}
	return found
}
