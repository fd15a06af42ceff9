// SPDX-License-Identifier: Apache-2.0

// Command changed prints the tests that differ from an earlier commit. CI runs each of them ten times, so that most
// tests that are red at times are found before they land.
//
// A test is a function in a _test.go file, or a script of testscript. A change of a function that tests call is not
// followed.
//
// Each line has a package's directory, a size and a regular expression for go test -run. The size is for TESTS_SLICE:
// "core", so that a table runs the cells of the core alone, or "whole" for scripts, which have been named one by one.
//
//	changed [-most N] COMMIT
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// scripts are the tests that run the scripts of a directory.
var scripts = map[string]string{
	"test/week/testdata":   "TestWeek",
	"test/script/testdata": "TestScripts",
}

// A test is one of go test.
type test struct{ dir, size, name string }

// lines are numbers of lines in a file, both included.
type lines struct{ from, to int }

func main() {
	most := flag.Int("most", 25, "print no more tests than these, drawn at random")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: changed [-most N] COMMIT")
		os.Exit(2)
	}
	tests, err := changed(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "changed:", err)
		os.Exit(1)
	}
	if len(tests) > *most {
		fmt.Fprintf(os.Stderr, "changed: %d of %d changed tests, drawn at random\n", *most, len(tests))
		rand.Shuffle(len(tests), func(i, j int) { tests[i], tests[j] = tests[j], tests[i] })
		tests = tests[:*most]
	}
	runs := map[string][]string{}
	for _, t := range tests {
		run := "./" + t.dir + "\t" + t.size
		runs[run] = append(runs[run], pattern(t.name))
	}
	for run, patterns := range runs {
		slices.Sort(patterns)
		fmt.Printf("%s\t%s\n", run, strings.Join(patterns, "|"))
	}
}

// pattern is a regular expression for go test -run, which matches each part of a name by itself.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

func changed(commit string) ([]test, error) {
	diff, err := exec.Command("git", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--diff-filter=AMR", commit, "--", "*_test.go", "*.txtar").Output()
	if err != nil {
		return nil, fmt.Errorf("git diff %s: %w", commit, err)
	}
	var all []test
	for file, edited := range editedLines(string(diff)) {
		dir := filepath.Dir(file)
		if runner := scripts[dir]; runner != "" {
			name := strings.TrimSuffix(filepath.Base(file), ".txtar")
			all = append(all, test{filepath.Dir(dir), "whole", runner + "/" + name})
			continue
		}
		if !strings.HasSuffix(file, "_test.go") {
			continue // a script that waits for its defect to be mended
		}
		names, err := functions(file, edited)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, test{dir, "core", name})
		}
	}
	return all, nil
}

// hunk is the head of one, with the lines of the new file: "@@ -3,2 +4,5 @@".
var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// editedLines reads a diff without context.
func editedLines(diff string) map[string][]lines {
	edited := map[string][]lines{}
	file := ""
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		if name, found := strings.CutPrefix(line, "+++ b/"); found {
			file = name
			continue
		}
		head := hunk.FindStringSubmatch(line)
		if head == nil {
			continue
		}
		from, _ := strconv.Atoi(head[1]) // it is a number
		count := 1
		if head[2] != "" {
			count, _ = strconv.Atoi(head[2])
		}
		edited[file] = append(edited[file], lines{from, from + max(count, 1) - 1}) // a deletion is beside a line
	}
	return edited
}

// functions returns the tests of a file that have an edited line.
func functions(file string, edited []lines) ([]string, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, declared := range parsed.Decls {
		function, isFunction := declared.(*ast.FuncDecl)
		if !isFunction || function.Recv != nil || !strings.HasPrefix(function.Name.Name, "Test") || function.Name.Name == "TestMain" {
			continue
		}
		from := set.Position(function.Pos()).Line
		to := set.Position(function.End()).Line
		if slices.ContainsFunc(edited, func(l lines) bool { return l.from <= to && l.to >= from }) {
			names = append(names, function.Name.Name)
		}
	}
	return names, nil
}
