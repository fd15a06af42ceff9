// SPDX-License-Identifier: Apache-2.0

// Package pages checks the documents without running them: links, length, and commands that no test runs.
package pages

import (
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const root = "../../.."

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	mention = regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
)

// Every link of a document leads to a file, and to a heading of it if it names one. A document that any file
// names is there.
func TestLinks(t *testing.T) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exists := func(file string) bool {
		info, err := os.Stat(filepath.Join(root, file))
		return err == nil && (info.Mode().IsRegular() || info.IsDir())
	}
	links := 0
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if !exists(file) || strings.Contains(file, "testdata/") || strings.HasPrefix(file, "test/documents/") {
			continue
		}
		content := text(t, file)
		for _, name := range mention.FindAllString(content, -1) {
			if !exists(name) {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(content, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			if !exists(to) {
				t.Errorf("%s: there is no %s", file, m[1])
			} else if anchor != "" && strings.HasSuffix(to, ".md") && !anchors(text(t, to))[anchor] {
				t.Errorf("%s: %s has no heading for #%s", file, to, anchor)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// README and pages are played by TestCommands of test/documents.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{root + "/README.md"}
	for _, pattern := range []string{"/docs/*.md", "/docs/*/*.md"} {
		found, err := filepath.Glob(root + pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// The lines of a page are short enough for an editor.
func TestWidth(t *testing.T) {
	for _, page := range pages(t) {
		content := text(t, strings.TrimPrefix(page, root))
		for i, line := range strings.Split(content, "\n") {
			if n := utf8.RuneCountInString(line); n > 120 && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d has %d columns, more than 120", page, i+1, n)
			}
		}
	}
}

var (
	typed  = regexp.MustCompile(`^(\$ |# )?(sudo )?(mcpscope|systemctl|make|go) [a-z-]`)
	notRun = regexp.MustCompile(`^<!-- not run: .* -->$`)
	source = regexp.MustCompile("`((?:cmd|cgroup|freeze|scope|internal|test)/[a-z0-9/_]+\\.(?:go|c|mjs))`")
)

// A command is in a block of the language console, whose lines TestCommands runs, or the page has the reason
// why it is not run. A synopsis lists flags.
func TestCommandsAreRun(t *testing.T) {
	for _, page := range pages(t) {
		language := ""
		open := false
		reason := false
		for i, line := range strings.Split(text(t, strings.TrimPrefix(page, root)), "\n") {
			switch {
			case strings.HasPrefix(line, "```"):
				if open = !open; open {
					language = line[3:]
				} else {
					reason = false
				}
			case !open && line != "":
				reason = notRun.MatchString(line)
			case open && language != "console" && language != "synopsis" && !reason && typed.MatchString(line):
				t.Errorf("%s:%d: no test runs %q: make its block a console, or begin it with <!-- not run: REASON -->", page, i+1, line)
			}
		}
	}
}

// A page names source files that are there.
func TestSourcesAreThere(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range source.FindAllStringSubmatch(text(t, strings.TrimPrefix(page, root)), -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// The picture of the dashboard has its panels, in their order.
func TestPictureHasThePanels(t *testing.T) {
	var dashboard struct{ Panels []struct{ Title string } }
	if err := json.Unmarshal([]byte(text(t, "docs/reference/prometheus/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, panel := range dashboard.Panels {
		want = append(want, panel.Title)
	}
	for _, m := range regexp.MustCompile(`font-weight="bold">([^<]*)<`).FindAllStringSubmatch(text(t, "docs/reference/prometheus/dashboard.svg"), -1) {
		got = append(got, html.UnescapeString(m[1]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the picture has %q, the dashboard %q: make dashboard", got, want)
	}
}

// anchors are those that GitHub gives to headings.
func anchors(document string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(document, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return r
			}
			return -1
		}, strings.ToLower(link.ReplaceAllString(m[1], "]")))
		all[anchor] = true
	}
	return all
}
