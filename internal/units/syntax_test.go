// SPDX-License-Identifier: Apache-2.0

package units

import (
	"slices"
	"strings"
	"testing"
)

// Values of ExecStart= are those that systemd 252 has for the same text, with the quotes and variables.
func TestParseUnit(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"comment in a continued value":   {"[Service]\nExecStart=gw --listen \\\n  # --allow-all \\\n  --port 8000\n", []string{"gw --listen    --port 8000"}},
		"semicolon in a continued value": {"[Service]\nExecStart=gw \\\n;x\n y\n", []string{"gw   y"}},
		"comment that ends in backslash": {"[Service]\n# old: \\\nExecStart=gw\n", []string{"gw"}},
		"hash within a value":            {"[Service]\nExecStart=gw # x\n", []string{"gw # x"}},
		"blank line ends the value":      {"[Service]\nExecStart=gw \\\n\nExecStart=b\n", []string{"gw", "b"}},
		"escaped backslash at the end":   {"[Service]\nExecStart=gw a\\\\\nExecStart=b\n", []string{`gw a\\`, "b"}},
		"end of file in a value":         {"[Service]\nExecStart=gw \\", []string{"gw"}},
		"another section":                {"[X-Service]\nExecStart=no\n[Service]\nExecStart=gw\n[Install]\nExecStart=no\n", []string{"gw"}},
		"no section":                     {"ExecStart=no\n", nil},
		"blanks":                         {"\t[Service] \n  ExecStart  =  -:gw \"a  b\" $X %n  \n", []string{`-:gw "a  b" $X %n`}},
		"carriage returns":               {"\ufeff[Service]\r\nExecStart=gw \\\r\n x\r\n\r\nExecStart=\r\n", []string{"gw   x", ""}},
		"not UTF-8":                      {"[Service]\nExecStart=\xff\nExecStart=gw\n", []string{"gw"}},
		"a long line":                    {"[Service]\nExecStart=gw " + strings.Repeat("x", 5000) + "\n", []string{"gw " + strings.Repeat("x", 5000)}},
		"no assignment":                  {"[Service]\nExecStart\n=x\nExecStart=gw", []string{"gw"}},
	} {
		var got []string
		for _, a := range parseUnit(c.text) {
			if a.Section == "Service" && a.Key == "ExecStart" {
				got = append(got, a.Value)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
