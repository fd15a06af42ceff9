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
		{splice.JSON, "{\n  \"a\": s3cret\n}", "line 2, column 8: not valid JSON"},
		{splice.JSON, "\uFEFF{\"a\"}", "line 1, column 5: not valid JSON"},
		{splice.JSON, "{\"ü\": \xff}", "not UTF-8"},
		{splice.JSON, "\xff\xfe{\x00}\x00", "not UTF-8"},
		{splice.TOML, "a = 1\nb = s3cret\n", "line 2, column 5: not valid TOML"},
		{splice.YAML, "a:\n  - b\n c: s3cret\n", "not valid YAML"},
		{splice.YAML, strings.Repeat("- ", 20_000), "not valid YAML"},
	} {
		d, err := splice.Parse(c.format, []byte(c.text))
		if err == nil || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.40q: %+v, %v; want %q", c.text, d, err, c.want)
		}
	}
}

// Parsers call themselves for each level, and a stack that overflows ends the program.
func TestNestedTooDeep(t *testing.T) {
	const levels = 3 << 20
	for _, c := range []struct {
		format     splice.Format
		text, want string
	}{
		{splice.JSON, strings.Repeat("[", levels), "nested"},
		{splice.JSON, "/* \" */" + strings.Repeat(`{"a\"": `, levels), "nested"},
		{splice.TOML, "a = " + strings.Repeat("[", levels/2-4), "not valid TOML"},
		{splice.TOML, strings.Repeat("a.", levels) + "a = 1\n", "larger"},
		{splice.YAML, strings.Repeat("[", levels), "not valid YAML"},
	} {
		d, err := splice.Parse(c.format, []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %+v, %v; want %q", c.text, d, err, c.want)
		}
	}
	for _, text := range []string{
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"[" + strings.Repeat("[], ", levels/100) + "\"" + strings.Repeat("[", levels) + "\"]",
	} {
		if _, err := splice.Parse(splice.JSON, []byte(text)); err != nil {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// An open brace, bracket or string is reported where it begins, and no position is past the last line.
func TestMalformedAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		format     splice.Format
		text, want string
	}{
		{splice.JSON, "{\"a\": {\"b\": ", "line 1, column 7: not valid JSON: this { is never closed"},
		{splice.JSON, "{\n  \"a\": {\"b\": 1}\n\n", "line 1, column 1: not valid JSON: this { is never closed"},
		{splice.JSON, "{\n  // {\n  \"a\": [\"}]\", /* [ */\n", "line 3, column 8: not valid JSON: this [ is never closed"},
		{splice.JSON, "{\n\"a\": [\n\"\\\"b]}}}\n}\n", "line 3, column 1: not valid JSON: this string is never closed"},
		{splice.JSON, "\uFEFF{\"a\": 1\n", "line 1, column 1: not valid JSON: this { is never closed"},
		{splice.JSON, "// nothing\n\n", "line 1, column 11: not valid JSON"},
		{splice.JSON, "{\"a\": 1}}\n", "line 1, column 9: not valid JSON"},
		{splice.TOML, "a = [\n1, # ]\n2\n", "line 1, column 5: not valid TOML: this [ is never closed"},
		{splice.TOML, "a = 1\nb = \"\"\"\nx\n\n", "line 2, column 5: not valid TOML: this string is never closed"},
		{splice.TOML, "a = 1\nb = 'x\n", "line 2, column 5: not valid TOML: this string is never closed"},
		{splice.TOML, "a = {b = ']'\n", "line 1, column 5: not valid TOML: this { is never closed"},
		{splice.TOML, "[a]\nb = \"x\nc = 1\n", "line 2, column 7: not valid TOML"},
		{splice.YAML, "a: \"x\nb: c\n", "line 2, column 5: not valid YAML"},
	} {
		_, err := splice.Parse(c.format, []byte(c.text))
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v; want %q", c.text, err, c.want)
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
