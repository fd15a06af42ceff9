// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
)

// The default of a row, which people read, is the value without any setting.
func TestDefaultOfRows(t *testing.T) {
	for i := range table {
		r := &table[i]
		if r.Default == "" {
			if r.Switch() || r.Only {
				t.Errorf("%s has a value without any setting, and no default", r.Name)
			}
			continue
		}
		v := Defaults()
		if err := r.set(v, r.Default); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		v.Limits.Files = slices.DeleteFunc(v.Limits.Files, func(l cgroup.Limit) bool { return strings.HasPrefix(l.Value, "max") })
		if len(v.Limits.Files) > 0 {
			t.Errorf("%s limits by default: %+v", r.Name, v.Limits)
		}
		v.Limits.Files = nil
		if got, want := fmt.Sprintf("%+v", *v), fmt.Sprintf("%+v", *Defaults()); got != want {
			t.Errorf("%s = %s: %s, want %s", r.Name, r.Default, got, want)
		}
	}
}

func TestEffective(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "first.toml")
	second := filepath.Join(dir, "second.toml")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first, "[defaults]\nterm-grace = \"7s\"\neof-grace = \"8s\"\nmatch = [\"a *\", \"b\"]\n[server.\"git*\"]\nterm-grace = 9\n")
	write(second, "[defaults]\n\neof-grace = \"5s\"\n[server.\"git*\"]\nterm-grace = \"4s\"\n")
	files := ParseFiles([]FilePlace{{Path: first}, {Path: second}})
	variables := map[string]string{"MCPSCOPE_STDERR": "journal", "MCPSCOPE_BACKEND": "nowhere", "MCPSCOPE_MATCH": "x"}
	getenv := func(name string) string { return variables[name] }

	sources := func(server string) map[string]string {
		all, problems := files.Effective(server, getenv)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), `MCPSCOPE_BACKEND: "nowhere" is none of auto`) {
			t.Errorf("%v", problems)
		}
		found := map[string]string{}
		for _, e := range all {
			found[e.Row.Name] = strings.Join(e.Texts, "|") + " " + e.Source()
		}
		return found
	}
	want := map[string]string{
		"term-grace": "7s " + first + ":2", "eof-grace": "5s " + second + ":3", "match": "a *|b " + first + ":4",
		"stderr": "journal MCPSCOPE_STDERR", "backend": "nowhere MCPSCOPE_BACKEND", "require": "false default",
		"report": " default", "memory-max": "max default",
	}
	got := sources("")
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %q, want %q", name, got[name], text)
		}
	}
	for i := range table {
		if _, isListed := got[table[i].Name]; isListed != (table[i].Where != 0) {
			t.Errorf("%s is listed: %v", table[i].Name, isListed)
		}
	}
	if of := sources("github")["term-grace"]; of != "4s "+second+":5" {
		t.Errorf("github: %q", of)
	}
	servers := files.OfServers()
	if len(servers) != 1 || servers[0].Pattern != "git*" || servers[0].Source() != second+":5" {
		t.Errorf("%+v", servers)
	}
}

// A table for a server that does not exist is named with the line of its first key.
func TestUnmatched(t *testing.T) {
	place := write(t, "[server.gti]\nmemory-max = '1G'\npids-max = 5\n[server.'mem*']\npids-max = 5\n[server.zz]\npids-max = 5\n[server.memory]\npids-max = 5\n")
	const text = ": no configured and no running server is called "
	want := []string{place.Path + ":2" + text + `"gti"; did you mean git?`, place.Path + ":7" + text + `"zz"`, ""}
	sections := ParseFiles([]FilePlace{place}).Sections()
	var got []string
	for _, s := range sections {
		got = append(got, s.Unmatched([]string{"git", "memory", "git"}))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	ofSystem := Section{Name: "zz", File: System(), Line: 1}
	if got := ofSystem.Unmatched([]string{"git"}); got != "" {
		t.Errorf("another user can have it: %q", got)
	}
	ofSystem.Name = "gti"
	if got := ofSystem.Unmatched([]string{"git"}); !strings.HasSuffix(got, "did you mean git?") {
		t.Errorf("%q", got)
	}
}
