// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/scope"
)

// keysOf are the keys that a struct has in JSON, those of embedded ones too.
func keysOf(of reflect.Type) []string {
	var all []string
	for field := range of.Fields() {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && tag == "":
			all = append(all, keysOf(field.Type)...)
		case field.IsExported() && tag != "-":
			all = append(all, tag)
		}
	}
	slices.Sort(all)
	return all
}

// section is a part of the manual for operators.
func section(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+title+"\n")
	if !found {
		t.Fatalf("there is no section %q", title)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

var code = regexp.MustCompile("`([^`]+)`")

// documented are the words of code in the first column of a table; behind a colon are those of what is inside.
func documented(table string) []string {
	var all []string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		cell, _, _ = strings.Cut(cell, "`:")
		for _, word := range code.FindAllStringSubmatch(cell+"`", -1) {
			if !slices.Contains(all, word[1]) {
				all = append(all, word[1])
			}
		}
	}
	slices.Sort(all)
	return all
}

// Whatever is in JSON, and every cause of an end, is in the manual, and nothing else is.
func TestSchemas(t *testing.T) {
	for title, of := range map[string]any{
		"The report":                    scope.Report{},
		"`sweep --json`":                sweptView{},
		"`leaks --json`":                leakView{},
		"`ls --json`, `inspect --json`": view{},
	} {
		if got, want := documented(section(t, title)), keysOf(reflect.TypeOf(of)); !slices.Equal(got, want) {
			t.Errorf("%s: the manual has %q, JSON %q", title, got, want)
		}
	}
	var causes []string
	for _, c := range scope.Causes() {
		causes = append(causes, string(c))
	}
	slices.Sort(causes)
	if got := documented(section(t, "Causes")); !slices.Equal(got, causes) {
		t.Errorf("the manual has the causes %q, there are %q", got, causes)
	}
}
