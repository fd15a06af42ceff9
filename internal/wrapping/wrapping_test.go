// SPDX-License-Identifier: Apache-2.0

package wrapping_test

import (
	"flag"
	"io"
	"testing"

	"github.com/mcpscope/mcpscope/internal/splice"
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

const program = "/usr/local/bin/mcpscope"

// everywhere are the places of all clients.
var everywhere = wrapping.Reader{
	Places: []wrapping.Place{
		{"mcpServers"}, {"mcp_servers"}, {"servers"}, {"context_servers"}, {"extensions"}, {"mcp"}, {"projects", "*", "mcpServers"},
	},
	Exists: func(string) bool { return false },
	Operands: func(args []string) ([]string, error) {
		fs := flag.NewFlagSet("run", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		for _, name := range []string{"name", "wrapped", "term-grace"} {
			fs.String(name, "", "")
		}
		err := fs.Parse(args)
		return fs.Args(), err
	},
}

func all(string) bool { return true }

func parse(t *testing.T, f splice.Format, text string) *splice.Document {
	t.Helper()
	d, err := splice.Parse(f, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// Each is wrapped, known as wrapped, left alone by a second wrap, and comes back to the byte.
func TestThereAndBack(t *testing.T) {
	for _, c := range []struct {
		what         string
		format       splice.Format
		bare, wanted string
	}{
		{"a line", splice.JSON, `{"mcpServers":{"t":{"command":"npx","args":["-y","foo"]}}}`,
			`{"mcpServers":{"t":{"command":"/usr/local/bin/mcpscope","args":["run","--name","t","--","npx","-y","foo"]}}}`},
		{"args on lines, a comma at the end, comments", splice.JSON,
			"{ // c\n  \"mcpServers\": {\n    \"t\": {\n      \"command\": \"n\\u0070x\", // why\n      \"args\": [\n        \"-y\", /* x */\n        \"foo\",\n      ],\n    },\n  },\n}\n",
			"{ // c\n  \"mcpServers\": {\n    \"t\": {\n      \"command\": \"/usr/local/bin/mcpscope\", // why\n      \"args\": [\n        \"run\", \"--name\", \"t\", \"--\", \"n\\u0070x\",\n        \"-y\", /* x */\n        \"foo\",\n      ],\n    },\n  },\n}\n"},
		{"CRLF and BOM", splice.JSON,
			"\uFEFF{\r\n\t\"servers\": {\r\n\t\t\"t\": {\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"x\"\r\n\t\t\t],\r\n\t\t\t\"command\": \"npx\"\r\n\t\t}\r\n\t}\r\n}",
			"\uFEFF{\r\n\t\"servers\": {\r\n\t\t\"t\": {\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"run\", \"--name\", \"t\", \"--\", \"npx\",\r\n\t\t\t\t\"x\"\r\n\t\t\t],\r\n\t\t\t\"command\": \"/usr/local/bin/mcpscope\"\r\n\t\t}\r\n\t}\r\n}"},
		{"no args, a line each", splice.JSON, "{\"mcpServers\": {\n  \"t\": {\n    \"env\": {},\n    \"command\": \"srv\" // c\n  }}}",
			"{\"mcpServers\": {\n  \"t\": {\n    \"env\": {},\n    \"command\": \"/usr/local/bin/mcpscope\",\n    \"args\": [\"run\", \"--name\", \"t\", \"--wrapped=no-args\", \"--\", \"srv\"] // c\n  }}}"},
		{"no args, one line", splice.JSON, `{"mcpServers": {"t": {"command": "srv", "env": {}}}}`,
			`{"mcpServers": {"t": {"command": "/usr/local/bin/mcpscope","args": ["run", "--name", "t", "--wrapped=no-args", "--", "srv"], "env": {}}}}`},
		{"empty args", splice.JSON, `{"mcpServers": {"t": {"command": "srv", "args": [ /* none */ ]}}}`,
			`{"mcpServers": {"t": {"command": "/usr/local/bin/mcpscope", "args": ["run", "--name", "t", "--", "srv" /* none */ ]}}}`},
		{"one list", splice.JSON, `{"mcp": {"t": {"type": "local", "command": [ "npx", "-y" ]}}}`,
			`{"mcp": {"t": {"type": "local", "command": [ "/usr/local/bin/mcpscope", "run", "--name", "t", "--", "npx", "-y" ]}}}`},
		{"a map of its own", splice.JSON, `{"context_servers": {"t": {"command": {"path": "npx", "args": ["a"]}}}}`,
			`{"context_servers": {"t": {"command": {"path": "/usr/local/bin/mcpscope", "args": ["run", "--name", "t", "--", "npx", "a"]}}}}`},
		{"a name that is none", splice.JSON, `{"mcpServers": {"a\nb\u001b[31m": {"command": "x", "args": ["a", "b"]}}}`,
			`{"mcpServers": {"a\nb\u001b[31m": {"command": "/usr/local/bin/mcpscope", "args": ["run", "--name", "ab[31m", "--", "x", "a", "b"]}}}`},
		{"projects", splice.JSON, `{"projects": {"/a": {"mcpServers": {"t": {"command": "x", "args": []}}}}}`,
			`{"projects": {"/a": {"mcpServers": {"t": {"command": "/usr/local/bin/mcpscope", "args": ["run", "--name", "t", "--", "x"]}}}}}`},
		{"a table", splice.TOML, "[mcp_servers.t] # c\ncommand = 'npx' # why\nargs = [ # c\n  \"-y\",\n  'foo', # c\n]\n",
			"[mcp_servers.t] # c\ncommand = \"/usr/local/bin/mcpscope\" # why\nargs = [ # c\n  \"run\", \"--name\", \"t\", \"--\", 'npx',\n  \"-y\",\n  'foo', # c\n]\n"},
		{"a table without args", splice.TOML, "[mcp_servers.t]\n  command = \"srv\" # why\n\n[mcp_servers.t.env]\nA = \"1\"",
			"[mcp_servers.t]\n  args = [\"run\", \"--name\", \"t\", \"--wrapped=no-args\", \"--\", \"srv\"]\n  command = \"/usr/local/bin/mcpscope\" # why\n\n[mcp_servers.t.env]\nA = \"1\""},
		{"an inline table", splice.TOML, "mcp_servers.\"a b\" = { command = \"srv\", env = { A = \"1\" } }\n",
			"mcp_servers.\"a b\" = { command = \"/usr/local/bin/mcpscope\", args = [\"run\", \"--name\", \"a b\", \"--wrapped=no-args\", \"--\", \"srv\"], env = { A = \"1\" } }\n"},
		{"dotted keys", splice.TOML, "mcp_servers.t.command = '''srv'''\r\n",
			"mcp_servers.t.args = [\"run\", \"--name\", \"t\", \"--wrapped=no-args\", \"--\", '''srv''']\r\nmcp_servers.t.command = \"/usr/local/bin/mcpscope\"\r\n"},
		{"an array of tables", splice.TOML, "[[mcp_servers]]\nname = \"a\"\ncommand = \"x\"\nargs = []\n[[mcp_servers]]\nname = \"b\"\ncommand = [\"y\",\"z\"]\n",
			"[[mcp_servers]]\nname = \"a\"\ncommand = \"/usr/local/bin/mcpscope\"\nargs = [\"run\", \"--name\", \"a\", \"--\", \"x\"]\n[[mcp_servers]]\nname = \"b\"\ncommand = [\"/usr/local/bin/mcpscope\",\"run\",\"--name\",\"b\",\"--\",\"y\",\"z\"]\n"},
		{"blocks", splice.YAML, "mcp_servers:\n  t: # c\n    command: npx # why\n    args:\n    - -y # c\n    - 'foo'\n    env:\n      A: 1\n",
			"mcp_servers:\n  t: # c\n    command: /usr/local/bin/mcpscope # why\n    args:\n    - run\n    - --name\n    - t\n    - --\n    - npx\n    - -y # c\n    - 'foo'\n    env:\n      A: 1\n"},
		{"blocks, CRLF, quotes", splice.YAML, "mcp_servers:\r\n  \"t\":\r\n    args:\r\n      # c\r\n      - \"-y\"\r\n    command: 'n''px'\r\n",
			"mcp_servers:\r\n  \"t\":\r\n    args:\r\n      # c\r\n      - run\r\n      - --name\r\n      - t\r\n      - --\r\n      - 'n''px'\r\n      - \"-y\"\r\n    command: /usr/local/bin/mcpscope\r\n"},
		{"a block without args", splice.YAML, "mcpServers:\n- name: t\n  command: srv # why\n- command: srv2\n  name: \"8\"\n",
			"mcpServers:\n- name: t\n  args: [run, --name, t, --wrapped=no-args, --, srv]\n  command: /usr/local/bin/mcpscope # why\n- args: [run, --name, \"8\", --wrapped=no-args, --, srv2]\n  command: /usr/local/bin/mcpscope\n  name: \"8\"\n"},
		{"escapes", splice.YAML, "mcpServers: {t: {command: \"n\\\"p\\u0078\", args: [\"\\\\\", 'it''s'], cwd: x}}",
			"mcpServers: {t: {command: /usr/local/bin/mcpscope, args: [run, --name, t, --, \"n\\\"p\\u0078\", \"\\\\\", 'it''s'], cwd: x}}"},
		{"flow", splice.YAML, "extensions: {t: {type: stdio, cmd: npx, args: [-y, \"foo\"], enabled: true}, u: {cmd: npx}}",
			"extensions: {t: {type: stdio, cmd: /usr/local/bin/mcpscope, args: [run, --name, t, --, npx, -y, \"foo\"], enabled: true}, u: {cmd: /usr/local/bin/mcpscope, args: [run, --name, u, --wrapped=no-args, --, npx]}}"},
		{"what needs quotes in a list", splice.YAML, "mcpServers:\n  t:\n    command: a,[b]\n    args: []\n",
			"mcpServers:\n  t:\n    command: /usr/local/bin/mcpscope\n    args: [run, --name, t, --wrapped=plain, --, \"a,[b]\"]\n"},
		{"numbers", splice.YAML, "mcpServers:\n  null:\n    command: x\n    args: [8080, true]\n  yes:\n    command: ü\n    args:\n      - 8080\n",
			"mcpServers:\n  null:\n    command: /usr/local/bin/mcpscope\n    args: [run, --name, \"null\", --, x, 8080, true]\n  yes:\n    command: /usr/local/bin/mcpscope\n    args:\n      - run\n      - --name\n      - \"yes\"\n      - --\n      - ü\n      - 8080\n"},
	} {
		t.Run(string(c.format)+" "+c.what, func(t *testing.T) {
			d := parse(t, c.format, c.bare)
			there, err := everywhere.Wrap(d, program, all)
			if err != nil {
				t.Fatal(err)
			}
			if string(there.Data) != c.wanted {
				t.Fatalf("wrapped to\n%s\nwant\n%s\n%+v", there.Data, c.wanted, there.Servers)
			}
			d = parse(t, c.format, c.wanted)
			if again, err := everywhere.Wrap(d, program, all); err != nil || again.Any() || string(again.Data) != c.wanted {
				t.Errorf("a second wrap: %v\n%s", err, again.Data)
			}
			back, err := everywhere.Unwrap(d, all)
			if err != nil || string(back.Data) != c.bare {
				t.Errorf("came back (%v) as\n%s\nwant\n%s", err, back.Data, c.bare)
			}
		})
	}
}

func TestLeftAlone(t *testing.T) {
	for _, c := range []struct {
		format       splice.Format
		text, reason string
	}{
		{splice.JSON, `{"mcpServers": {"t": {"url": "https://x"}}}`, "it is remote"},
		{splice.JSON, `{"mcpServers": {"t": {"type": "http", "url": "https://x"}}}`, `it is of type "http"`},
		{splice.JSON, `{"mcpServers": {"t": {"settings": {}}}}`, "it has no command"},
		{splice.JSON, `{"mcpServers": {"t": null}}`, "it is no table of settings"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "npx -y foo"}}}`, "its command is a whole line; put the arguments into args"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "~/x"}}}`, "its command begins with ~, which a client may replace there and not in args"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x", "args": "-y"}}}`, "its args are no list"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x", "args": [["-y"]]}}}`, "its args are more than texts"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x", "command": "y"}}}`, `there is more than one "command"`},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x"}}, "mcpServers": {}}`, `there is more than one "mcpServers"`},
		{splice.JSON, `{"mcpServers": {"t": {"command": "/x/mcpscope", "args": ["run", "--nope", "x"]}}}`, "its own command cannot be told from the flags before it"},
		{splice.YAML, "mcpServers:\n  t:\n    command: >-\n      x\n", "it is written over several lines"},
		{splice.YAML, "a: &a {command: x}\nmcpServers:\n  t: *a\n", "it is no table of settings"},
		{splice.YAML, "mcpServers:\n  t: &a\n    command: x\n", "it has an anchor (&), so it may stand for other parts too"},
		{splice.YAML, "a: &a {env: {}}\nmcpServers:\n  t:\n    <<: *a\n    command: x\n", "it takes parts from another (<<)"},
		{splice.YAML, "mcpServers:\n  t:\n    command: !!str x\n", "it has a tag (!)"},
		{splice.YAML, "mcpServers:\n  t:\n    command: x\n---\na: b\n", "there are several documents in the file"},
	} {
		change, err := everywhere.Wrap(parse(t, c.format, c.text), program, all)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if len(change.Servers) == 0 || change.Servers[0].Reason != c.reason || change.Any() || string(change.Data) != c.text {
			t.Errorf("%s\n%+v\nwant %q", c.text, change.Servers, c.reason)
		}
	}
}

// What a client has written anew since can still be unwrapped.
func TestUnwrapWhatWasLaidOutAnew(t *testing.T) {
	for _, c := range []struct {
		format     splice.Format
		text, want string
	}{
		{splice.JSON, `{"mcpServers":{"t":{"args":["run","--name","t","--wrapped=no-args","--","srv",],"command":"mcpscope"}}}`, `{"mcpServers":{"t":{"args":[],"command":"srv"}}}`},
		{splice.JSON, "{\"mcpServers\":{\"t\":{\"command\":\"/b/mcpscope\",\n\"args\":[\n\"run\",\n\"--\",\n\"srv\",\n\"a\"\n]}}}", "{\"mcpServers\":{\"t\":{\"command\":\"srv\",\n\"args\":[\n\"a\"\n]}}}"},
		{splice.JSON, `{"mcpServers":{"t":{"command":"mcpscope","args":["run","--term-grace","3s","--","srv","--"]}}}`, `{"mcpServers":{"t":{"command":"srv","args":["--"]}}}`},
		{splice.JSON, `{"mcpServers":{"t":{"command":"mcpscope","args":["run","mcpscope","run","x"]}}}`, `{"mcpServers":{"t":{"command":"mcpscope","args":["run","x"]}}}`},
		{splice.YAML, "mcpServers:\n  t:\n    command: mcpscope\n    args:\n    - run\n    - --wrapped=no-args\n    - --\n    - srv\n", "mcpServers:\n  t:\n    command: srv\n    args:\n    []\n"},
	} {
		change, err := everywhere.Unwrap(parse(t, c.format, c.text), all)
		if err != nil || string(change.Data) != c.want {
			t.Errorf("%v\n%s\nwant\n%s\n%+v", err, change.Data, c.want, change.Servers)
		}
	}
}
