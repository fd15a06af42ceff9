// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"strings"
	"testing"
)

// Indented lines of a help are code, as they are. In others nothing is markup.
func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"a *b* _c_ <d> [e] `f` g\\h": "a \\*b\\* \\_c\\_ \\<d> \\[e] \\`f\\` g\\\\h",
		"a\n  b *c*\n  d\ne\n":       "a\n\n      b *c*\n      d\ne\n",
		"a\n  b\n\n  c\n":            "a\n\n      b\n\n      c\n",
		"":                           "",
	} {
		if got := markdown(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The page of the file has all keys, each with a value of its kind.
func TestPages(t *testing.T) {
	list := pages()
	keys := list[1].text
	for _, want := range []string{"memory-max = SIZE", "match = [\"", "replace = true"} {
		if !strings.Contains(keys, want) {
			t.Errorf("no %q in %s", want, keys)
		}
	}
	if strings.Contains(keys, "@KEYS@") {
		t.Error("the keys are missing")
	}
	head := list[0].markdown("mcpscope 1.2")
	want := "% \"MCPSCOPE\" \"7\" \"\" \"mcpscope 1.2\" \"mcpscope\"\n\n# NAME\nmcpscope - how MCP servers are contained and stopped\n\n"
	if !strings.HasPrefix(head, want) {
		t.Errorf("%q, want %q", head[:min(len(head), 200)], want)
	}
}
