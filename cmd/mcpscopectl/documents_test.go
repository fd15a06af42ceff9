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
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/scope"
)

// Each page begins with examples, says what a caller needs, and man reads it without a complaint.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if s := say("man", dir); s.status != 0 {
		t.Fatalf("%+v", s)
	}
	order := regexp.MustCompile(`(?s)\.SH NAME\n.*\.SH SYNOPSIS\n.*\.SH EXAMPLES\n.*\.SH DESCRIPTION\n.*\.SH EXIT STATUS\n.*\.SH ENVIRONMENT\n.*\.SH FILES\n.*\.SH SEE ALSO\n`)
	all := map[string]bool{"mcpscope.1": true, "mcpscope.7": false, "mcpscope.toml.5": false}
	for _, c := range newRoot(cli.Stdio{}).Commands() {
		if !c.Hidden && c.Name() != "help" {
			all["mcpscope-"+c.Name()+".1"] = true
		}
	}
	for name, command := range all {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if command && !order.Match(page) && name != "mcpscope-version.1" { // nobody needs an example of version
			t.Errorf("%s has not all sections in their order: %q", name, regexp.MustCompile(`(?m)^\.SH .*`).FindAllString(string(page), -1))
		}
		if strings.Contains(name, "wrap") && !bytes.Contains(page, []byte("mcpscope/backups")) {
			t.Errorf("%s does not say where the backups are", name)
		}
		if !command && !bytes.Contains(page, []byte(".SH EXAMPLES\n")) {
			t.Errorf("%s has no examples", name)
		}
		cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", filepath.Join(dir, name))
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		if out, err := cmd.Output(); errors.Is(err, exec.ErrNotFound) {
			t.Log("no man here to read the pages")
		} else if err != nil || complaints.Len() > 0 || !bytes.Contains(out, []byte("mcpscope")) {
			t.Errorf("%s: %v: %s", name, err, complaints.String())
		}
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) != len(all) {
		t.Errorf("%d pages, %v; want %d", len(made), err, len(all))
	}
}

// Pages and helps have the same flags; mcpscope.toml(5) has the keys of the table.
func TestPagesHaveEveryFlag(t *testing.T) {
	root := newRoot(cli.Stdio{})
	pages := manPages(root)
	for _, c := range root.Commands() {
		page := pages["mcpscope-"+c.Name()+".1"]
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if c.Hidden || c.Name() == "help" || f.Hidden || f.Name == "help" {
				return
			}
			if !strings.Contains(helpOf(c), "--"+f.Name) || !strings.Contains(page, escaped("--"+f.Name)) {
				t.Errorf("%s: no --%s in its help, or in its page", c.Name(), f.Name)
			}
		})
		if strings.Contains(helpOf(c), "docs/") || strings.Contains(c.Long, "docs/") {
			t.Errorf("the help of %s names a file that is not installed", c.Name())
		}
	}
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		if has := strings.Contains(pages["mcpscope.toml.5"], `\fB`+escaped(row.Name)+" = "); has != (row.Where&settings.File != 0) {
			t.Errorf("mcpscope.toml(5) and %s: %v", row.Name, has)
		}
		if v := row.Variable(); v != "" && !strings.Contains(pages["mcpscope-run.1"]+pages["mcpscope-gateway.1"], v) {
			t.Errorf("no page has %s", v)
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
	if s := say("config", "check", file); s.status != 0 {
		t.Errorf("%+v", s)
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
