// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// The operands of wrap are clients and files, and doctor has no operand. The shell selects by the begin of a word.
func TestCompletions(t *testing.T) {
	newUser(t)
	for _, c := range []struct {
		line   string
		part   string // of the output
		ending string
	}{
		{"wrap ", "\ncursor\tCursor\n", "\n:0\n"},
		{"unwrap ", "\ncursor\tCursor\n", "\n:0\n"},
		{"doctor ", "", ":4\n"},
		{"run --backend ", "systemd-user\nsystemd-system\n", "\n:36\n"},
	} {
		s := say(append([]string{"__complete"}, strings.Split(c.line, " ")...)...)
		if s.status != cli.ExitOK || !strings.Contains(s.out, c.part) || !strings.HasSuffix(s.out, c.ending) {
			t.Errorf("%q: %q, want %q and %q", c.line, s.out, c.part, c.ending)
		}
	}
}

// Words that a shell could take for something else are not completed, and each word is there once.
func TestWords(t *testing.T) {
	got := complete([]string{"b", "$(reboot)", "a", "b", "more", "`reboot`", "more"})
	if want := []string{"a", "b", "more"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
