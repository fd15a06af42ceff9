// SPDX-License-Identifier: Apache-2.0

package wrapping_test

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// The program of a server and the words before it stay. Arguments, variables, headers and all else may be
// secrets.
func TestMask(t *testing.T) {
	for _, c := range []struct {
		what         string
		format       splice.Format
		text, wanted string
	}{
		{"bare", splice.JSON,
			`{"key": "s3cret", "mcpServers": {"t": {"command": "npx", "args": ["--key", "s3cret"], "env": {"KEY": "s3cret"}, "headers": {"Authorization": "Bearer s3cret"}}}}`,
			`{"key": "…", "mcpServers": {"t": {"command": "npx", "args": ["…", "…"], "env": {"KEY": "…"}, "headers": {"Authorization": "…"}}}}`},
		{"wrapped", splice.JSON,
			`{"mcpServers": {"t": {"command": "/bin/mcpscope", "args": ["run", "--idle-freeze", "10m", "--name", "t", "--", "npx", "s3cret"]}}}`,
			`{"mcpServers": {"t": {"command": "/bin/mcpscope", "args": ["run", "--idle-freeze", "10m", "--name", "t", "--", "npx", "…"]}}}`},
		{"broken", splice.JSON,
			`{"mcpServers": {"t": {"command": "/gone/mcpscope", "args": ["run", "--", "npx", "s3cret"]}}}`,
			`{"mcpServers": {"t": {"command": "/gone/mcpscope", "args": ["run", "--", "npx", "…"]}}}`},
		{"one list", splice.JSON, `{"mcp": {"t": {"command": ["npx", "s3cret"]}}}`, `{"mcp": {"t": {"command": ["npx", "…"]}}}`},
		{"a line of a shell, an address", splice.JSON,
			`{"mcpServers": {"t": {"command": "KEY=s3cret npx"}, "u": {"command": "npx s3cret"}, "v": {"url": "https://x?key=s3cret"}}}`,
			`{"mcpServers": {"t": {"command": "…"}, "u": {"command": "…"}, "v": {"url": "…"}}}`},
		{"a table", splice.TOML, "[mcp_servers.t] # s3cret\ncommand = 'npx'\nargs = ['s3cret', 5]\nenv.KEY = 's3cret'\n",
			"[mcp_servers.t] #…\ncommand = 'npx'\nargs = [\"…\", …]\nenv.KEY = \"…\"\n"},
		{"lines", splice.YAML, "mcp_servers:\n  t:\n    command: npx # s3cret\n    args:\n    - |\n      s3cret\n    - s3cret\n    env: &e\n      KEY: s3cret\n",
			"mcp_servers:\n  t:\n    command: npx #…\n    args:\n    - \"…\"\n      …\n    - \"…\"\n    env: &e\n      KEY: \"…\"\n"},
	} {
		got := string(everywhere.Mask(parse(t, c.format, c.text)))
		if got != c.wanted || strings.Contains(got, "s3cret") {
			t.Errorf("%s:\n%s\nwant\n%s", c.what, got, c.wanted)
		}
	}
}
