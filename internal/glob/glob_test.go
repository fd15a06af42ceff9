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
