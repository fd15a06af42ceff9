// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// There is a page for each command, and groff reads it without a complaint.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if s := say("man", dir); s.status != 0 {
		t.Fatalf("%+v", s)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("groff", append([]string{"-k", "-t", "-man", "-ww", "-z", "-Tutf8"}, made...)...)
	if complaints, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Log("no groff here to read the pages")
	} else if err != nil || len(complaints) > 0 {
		t.Errorf("%v: %s", err, complaints)
	}
	want := []string{"mcpscope.1", "mcpscope.7", "mcpscope.toml.5"}
	for _, c := range newRoot(cli.Stdio{}).Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			want = append(want, "mcpscope-"+c.Name()+".1")
		}
	}
	for _, name := range want {
		if !slices.Contains(made, filepath.Join(dir, name)) {
			t.Errorf("there is no %s", name)
		}
	}
}

// mcpscope(1) lists the commands, and a page has each flag with its value, as a person types it.
func TestPagesDescribeCommandsAndFlags(t *testing.T) {
	dir := t.TempDir()
	if s := say("man", dir); s.status != 0 {
		t.Fatalf("%+v", s)
	}
	for file, words := range map[string][]string{
		"mcpscope.1":      {`\fBmcpscope-stop\fP(1)`, "stop servers", `\fBmcpscope-run\fP(1)`},
		"mcpscope-stop.1": {`\fB--grace\fP D`, `\fB--client\fP PID|NAME`, `\fB--yes\fP`},
		"mcpscope-run.1":  {`\fB--memory-max\fP SIZE`, `\fB-q\fP, \fB--quiet\fP`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		page := strings.ReplaceAll(string(text), `\-`, "-")
		for _, word := range words {
			if !strings.Contains(page, word) {
				t.Errorf("%s: no %q", file, word)
			}
		}
		if strings.Contains(page, "=false") || strings.Contains(page, "=\n") {
			t.Errorf("%s: a flag without its value", file)
		}
	}
}

// The reference for a browser is what the helps say today.
func TestReferenceIsCurrent(t *testing.T) {
	dir := t.TempDir()
	if s := say("man", "--reference", dir); s.status != 0 {
		t.Fatalf("%+v", s)
	}
	for _, name := range []string{"commands.md", "settings.md"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile("../../docs/reference/" + name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is not what the helps say (%v): make reference", name, err)
		}
	}
}

// Pages and helps have the same flags; mcpscope.toml(5) has the keys of the table.
func TestPagesHaveEveryFlag(t *testing.T) {
	dir := t.TempDir()
	if s := say("man", dir); s.status != 0 {
		t.Fatalf("%+v", s)
	}
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return strings.ReplaceAll(string(text), `\-`, "-")
	}
	for _, c := range newRoot(cli.Stdio{}).Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		help, text := say("help", c.Name()).out, page("mcpscope-"+c.Name()+".1")
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && (!strings.Contains(help, "--"+f.Name) || !strings.Contains(text, "--"+f.Name)) {
				t.Errorf("%s: no --%s in its help, or in its page", c.Name(), f.Name)
			}
		})
		if strings.Contains(help, "docs/") {
			t.Errorf("the help of %s names a file that is not installed", c.Name())
		}
	}
	keys := page("mcpscope.toml.5")
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		if has := strings.Contains(keys, "\n    "+row.Name+" = ") || strings.Contains(keys, "\n  "+row.Name+" = "); has != (row.Where&settings.File != 0) {
			t.Errorf("mcpscope.toml(5) and %s: %v", row.Name, has)
		}
	}
}

// The settings that packages install are sound when they are taken out of their comments.
func TestInstalledSettings(t *testing.T) {
	text, err := os.ReadFile("../../packaging/mcpscope.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(text), "\n#\n")
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(sample, "\n#", "\n")[1:]), 0o644); err != nil {
		t.Fatal(err)
	}
	place := settings.FilePlace{Path: file, Asked: true}
	if c := settings.ParseFiles([]settings.FilePlace{place}); len(c.Problems) > 0 {
		t.Errorf("%+v", c)
	}
}

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

// section is a part of a page of the reference.
func section(t *testing.T, page, title string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/" + page)
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

// documented returns the words of code in the first column of a table, without those after a colon.
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

// The manual lists exactly the keys of JSON, and the causes of a stop.
func TestSchemas(t *testing.T) {
	for title, of := range map[string]any{
		"The report":                    report.Report{},
		"`sweep --json`":                leaks.Swept{},
		"`ls --json`, `inspect --json`": render.Server{},
	} {
		want := keysOf(reflect.TypeOf(of))
		if title == "`sweep --json`" { // beside those of ls
			want = slices.DeleteFunc(want, func(key string) bool { return slices.Contains(keysOf(reflect.TypeFor[render.Server]()), key) })
		}
		if got := documented(section(t, "json.md", title)); !slices.Equal(got, want) {
			t.Errorf("%s: the manual has %q, JSON %q", title, got, want)
		}
	}
	var want []string
	for _, c := range causes.All() {
		want = append(want, string(c))
	}
	slices.Sort(want)
	if got := documented(section(t, "troubleshooting.md", "Causes")); !slices.Equal(got, want) {
		t.Errorf("the manual has the causes %q, there are %q", got, want)
	}
}
