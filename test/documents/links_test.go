// SPDX-License-Identifier: Apache-2.0

// Package documents holds the documents to what they promise a reader: links lead somewhere, and
// commands do what is printed below them.
package documents

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const root = "../.."

// tracked are the files of the repository, and those that will be.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	return files
}

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

// Every link of a document leads to a file, and to a heading of it if it names one.
func TestLinks(t *testing.T) {
	links := 0
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, ".md") || strings.Contains(file, "testdata/") {
			continue
		}
		prose := fence.ReplaceAllString(text(t, file), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
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

// A document that some file names is there.
func TestMentions(t *testing.T) {
	for _, file := range tracked(t) {
		if strings.HasPrefix(file, "test/documents/") || strings.Contains(file, "testdata/") {
			continue
		}
		for _, name := range mention.FindAllString(text(t, file), -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
	}
}

// anchors are those that GitHub gives to headings.
func anchors(document string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(document, ""), -1) {
		title := link.ReplaceAllString(m[1], "]")
		var b strings.Builder
		for _, r := range strings.ToLower(title) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				b.WriteRune(r)
			}
		}
		all[b.String()] = true
	}
	return all
}

// widest is what a cell of a table may have: a reader follows a line no further.
const widest = 120

var cell = regexp.MustCompile(`(?:[^|\\]|\\.)*`)

func TestTablesAreNarrow(t *testing.T) {
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, ".md") {
			continue
		}
		for line := range strings.SplitSeq(fence.ReplaceAllString(text(t, file), ""), "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for _, c := range cell.FindAllString(line, -1) {
				if c = strings.TrimSpace(c); utf8.RuneCountInString(c) > widest {
					t.Errorf("%s: a cell of %d characters: %.60s…", file, utf8.RuneCountInString(c), c)
				}
			}
		}
	}
}
