// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		glob, s string
		want    bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"a*c", "abbc", true}, {"a*c", "abb", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"*a*b", "xaxbxb", true}, {"*a*b", "xaxbxc", false}, {"a.c", "abc", false}, {"**", "x", true},
		{strings.Repeat("*a", 20) + "b", strings.Repeat("a", 2000), false},
	} {
		if got := Matches(c.glob, c.s); got != c.want {
			t.Errorf("%.40q on %.40q: %v", c.glob, c.s, got)
		}
	}
}

// The first pattern wins that matches the line, the line with the base name, or the base name.
func TestFind(t *testing.T) {
	argv := []string{"/usr/bin/npx", "-y", "@scope/server"}
	for _, c := range []struct {
		globs []string
		argv  []string
		want  string
	}{
		{nil, argv, ""},
		{[]string{"*"}, nil, ""},
		{[]string{"node", "npx"}, argv, "npx"},
		{[]string{"npx -y *"}, argv, "npx -y *"},
		{[]string{"/usr/bin/npx *"}, argv, "/usr/bin/npx *"},
		{[]string{"*server", "*"}, argv, "*server"},
		{[]string{"-y", "@scope/*", "/usr/bin/npx"}, argv, ""},
		{[]string{"npx"}, []string{"npx"}, "npx"},
	} {
		if got := Find(c.globs, c.argv); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.globs, c.argv, got, c.want)
		}
	}
}
