// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

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

// A page is short enough to be read.
func TestLength(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, root+"/README.md") {
		switch filepath.Base(page) {
		case "gateway.md", "performance.md": // to be shortened
			continue
		}
		if n := strings.Count(text(t, strings.TrimPrefix(page, root)), "\n"); n > 160 {
			t.Errorf("%s has %d lines, and at most 160 are allowed", page, n)
		}
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
