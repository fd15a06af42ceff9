// SPDX-License-Identifier: Apache-2.0

package splice_test

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// The error about a malformed file contains the position, and no text of the file.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		format     splice.Format
		text, want string
	}{
		{splice.JSON, "{\n  \"a\": s3cret\n}", "line 2, column 8: is not valid JSON"},
		{splice.JSON, "\uFEFF{\"a\"}", "line 1, column 5: is not valid JSON"},
		{splice.JSON, "{\"ü\": \xff}", "is not UTF-8"},
		{splice.JSON, "\xff\xfe{\x00}\x00", "is not UTF-8"},
		{splice.TOML, "a = 1\nb = s3cret\n", "line 2, column 5: is not valid TOML"},
		{splice.YAML, "a:\n  - b\n c: s3cret\n", "is not valid YAML"},
		{splice.YAML, strings.Repeat("- ", 20_000), "is not valid YAML"},
	} {
		d, err := splice.Parse(c.format, []byte(c.text))
		if err == nil || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.40q: %+v, %v; want %q", c.text, d, err, c.want)
		}
	}
}

func TestEmptyFilesHaveNothing(t *testing.T) {
	for _, format := range []splice.Format{splice.JSON, splice.TOML, splice.YAML} {
		for _, text := range []string{"", "\n \r\n", "\uFEFF", "\uFEFF\n"} {
			if d, err := splice.Parse(format, []byte(text)); err != nil || len(d.Root.Members) > 0 {
				t.Errorf("%s %q: %v", format, text, err)
			}
		}
	}
}

func TestEditsMayNotOverlap(t *testing.T) {
	for _, edits := range [][]splice.Edit{{{0, 2, ""}, {1, 3, ""}}, {{2, 1, ""}}, {{0, 9, ""}}} {
		if got, err := splice.Apply([]byte("abc"), edits); err == nil {
			t.Errorf("%v: %q", edits, got)
		}
	}
	if got, err := splice.Apply([]byte("abc"), []splice.Edit{{2, 3, "C"}, {0, 0, "<"}, {1, 2, ""}}); err != nil || string(got) != "<aC" {
		t.Errorf("%q, %v", got, err)
	}
}
