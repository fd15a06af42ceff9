// SPDX-License-Identifier: Apache-2.0

package splice_test

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// The lines, the keys and the punctuation stay. Values and comments do not, however they are written.
func TestMask(t *testing.T) {
	for _, c := range []struct {
		format       splice.Format
		text, wanted string
	}{
		{splice.JSON, `{"a": "s3cret", "b": [1, true, false, null, "shown"], "c": {}}` + "\n",
			`{"a": "…", "b": […, true, false, null, "shown"], "c": {}}` + "\n"},
		{splice.JSON, "\uFEFF{\r\n\t// s3cret\r\n\t\"https://x\": \"s3\\\"cret\", /* s3cret\r\n\r\n\t   s3cret */ \"\\\"//\": 5,\r\n} // s3cret",
			"\uFEFF{\r\n\t//…\r\n\t\"https://x\": \"…\", /*…\r\n\r\n\t   …*/ \"\\\"//\": …,\r\n} //…"},
		{splice.JSON, "{/*\n*/\"a\": \"shown\"}", "{/*…\n*/\"a\": \"shown\"}"},
		{splice.TOML, "# s3cret\n[a.'#b'] # s3cret\n\"#c\" = 's3cret'#s3cret\nd = \"\"\"s3\n\n  cret\"\"\"\ne = [1979-05-27, [\"s3cret\"], {f = 'shown'}]\n#s3cret",
			"#…\n[a.'#b'] #…\n\"#c\" = \"…\"#…\nd = \"…\"\n\n  …\ne = […, [\"…\"], {f = 'shown'}]\n#…"},
		{splice.YAML, "\uFEFF# s3cret\na#b: s3cret # s3cret\nit's: # don't s3cret\n  'c # d': shown\n",
			"\uFEFF#…\na#b: \"…\" #…\nit's: #…\n  'c # d': shown\n"},
		{splice.YAML, "a: |\n  s3\n\n  cret\n  # s3cret\nb:\n  - >-\n    s3\n    cret\n  - plain s3\n    cret\n  - &x shown # s3cret\n  - *x\n",
			"a: \"…\"\n  …\n\n  …\n  …\nb:\n  - \"…\"\n    …\n    …\n  - \"…\"\n    …\n  - \"…\"\n  - …\n"},
		{splice.YAML, "a: {b: plain s3\n  cret, c: 1, d:\n  plain s3\n   cret\n}\n", "a: {b: \"…\"\n  …, c: …, d:\n  \"…\"\n   …\n…\n"},
		{splice.YAML, "a: {b: &x s3cret, c: !!str s3cret, d: 's3''cret', e: }\nf:\ng: &y\n  h: s3cret\ni: ~\n",
			"a: {b: \"…\", c: \"…\", d: \"…\", e: }\nf:\ng: &y\n  h: \"…\"\ni: …\n"},
	} {
		d, err := splice.Parse(c.format, []byte(c.text))
		if err != nil {
			t.Fatalf("%q: %v", c.text, err)
		}
		got := string(d.Mask(func(n *splice.Node) bool { return n.Text == "shown" }))
		if got != c.wanted {
			t.Errorf("%s\n%q\nwant\n%q", c.text, got, c.wanted)
		}
		if strings.Count(got, "\n") != strings.Count(c.text, "\n") {
			t.Errorf("%q has other lines", c.text)
		}
	}
}
