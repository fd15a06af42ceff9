// SPDX-License-Identifier: Apache-2.0

package wrapping_test

import (
	"bytes"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
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
		for _, name := range []string{"name", "term-grace", "idle-freeze"} {
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

// Each is wrapped, known as wrapped, not changed by a second wrap, and comes back to the byte.
func TestThereAndBack(t *testing.T) {
	for _, c := range []struct {
		what         string
		format       splice.Format
		bare, wanted string
	}{
		{"a line", splice.JSON, `{"mcpServers":{"t":{"command":"npx","args":["-y","foo"]}}}`,
			`{"mcpServers":{"t":{"command":"/usr/local/bin/mcpscope","args":["run", "--name", "t", "--", "npx", "-y","foo"]}}}`},
		{"args on lines, a comma at the end, comments", splice.JSON,
			"{ // c\n  \"mcpServers\": {\n    \"t\": {\n      \"command\": \"n\\u0070x\", // why\n      \"args\": [\n        \"-y\", /* x */\n        \"foo\",\n      ],\n    },\n  },\n}\n",
			"{ // c\n  \"mcpServers\": {\n    \"t\": {\n      \"command\": \"/usr/local/bin/mcpscope\", // why\n      \"args\": [\n        \"run\", \"--name\", \"t\", \"--\", \"n\\u0070x\", \"-y\", /* x */\n        \"foo\",\n      ],\n    },\n  },\n}\n"},
		{"CRLF and BOM", splice.JSON,
			"\uFEFF{\r\n\t\"servers\": {\r\n\t\t\"t\": {\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"x\"\r\n\t\t\t],\r\n\t\t\t\"command\": \"npx\"\r\n\t\t}\r\n\t}\r\n}",
			"\uFEFF{\r\n\t\"servers\": {\r\n\t\t\"t\": {\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"run\", \"--name\", \"t\", \"--\", \"npx\", \"x\"\r\n\t\t\t],\r\n\t\t\t\"command\": \"/usr/local/bin/mcpscope\"\r\n\t\t}\r\n\t}\r\n}"},
		{"no args, a line each", splice.JSON, "{\"mcpServers\": {\n  \"t\": {\n    \"env\": {},\n    \"command\": \"srv\" // c\n  }}}",
			"{\"mcpServers\": {\n  \"t\": {\n    \"env\": {},\n    \"command\": \"/usr/local/bin/mcpscope\", \"args\": [\"run\", \"--name\", \"t\", \"--\", \"srv\"] // c\n  }}}"},
		{"no args, one line", splice.JSON, `{"mcpServers": {"t": {"command": "srv", "env": {}}}}`,
			`{"mcpServers": {"t": {"command": "/usr/local/bin/mcpscope", "args": ["run", "--name", "t", "--", "srv"], "env": {}}}}`},
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
			"[mcp_servers.t] # c\ncommand = \"/usr/local/bin/mcpscope\" # why\nargs = [ # c\n  \"run\", \"--name\", \"t\", \"--\", 'npx', \"-y\",\n  'foo', # c\n]\n"},
		{"a table without args", splice.TOML, "[mcp_servers.t]\n  command = \"srv\" # why\n\n[mcp_servers.t.env]\nA = \"1\"",
			"[mcp_servers.t]\n  args = [\"run\", \"--name\", \"t\", \"--\", \"srv\"]\n  command = \"/usr/local/bin/mcpscope\" # why\n\n[mcp_servers.t.env]\nA = \"1\""},
		{"an inline table", splice.TOML, "mcp_servers.\"a b\" = { command = \"srv\", env = { A = \"1\" } }\n",
			"mcp_servers.\"a b\" = { command = \"/usr/local/bin/mcpscope\", args = [\"run\", \"--name\", \"a b\", \"--\", \"srv\"], env = { A = \"1\" } }\n"},
		{"dotted keys", splice.TOML, "mcp_servers.t.command = '''srv'''\r\n",
			"mcp_servers.t.args = [\"run\", \"--name\", \"t\", \"--\", '''srv''']\r\nmcp_servers.t.command = \"/usr/local/bin/mcpscope\"\r\n"},
		{"an array of tables", splice.TOML, "[[mcp_servers]]\nname = \"a\"\ncommand = \"x\"\nargs = []\n[[mcp_servers]]\nname = \"b\"\ncommand = [\"y\",\"z\"]\n",
			"[[mcp_servers]]\nname = \"a\"\ncommand = \"/usr/local/bin/mcpscope\"\nargs = [\"run\", \"--name\", \"a\", \"--\", \"x\"]\n[[mcp_servers]]\nname = \"b\"\ncommand = [\"/usr/local/bin/mcpscope\", \"run\", \"--name\", \"b\", \"--\", \"y\",\"z\"]\n"},
	} {
		t.Run(string(c.format)+" "+c.what, func(t *testing.T) {
			d := parse(t, c.format, c.bare)
			there := everywhere.Wrap(d, nil, []string{program, "run"}, all)
			if string(there.Data) != c.wanted || string(there.Backup) != c.bare {
				t.Fatalf("wrapped to\n%s\nwant\n%s\n%+v", there.Data, c.wanted, there.Servers)
			}
			d = parse(t, c.format, c.wanted)
			if again := everywhere.Wrap(d, there.Backup, []string{program, "run"}, all); again.Count() > 0 || string(again.Data) != c.wanted {
				t.Errorf("a second wrap:\n%s", again.Data)
			}
			back := everywhere.Unwrap(d, there.Backup, all)
			if string(back.Data) != c.bare {
				t.Errorf("came back as\n%s\nwant\n%s", back.Data, c.bare)
			}
		})
	}
}

func TestNotEditable(t *testing.T) {
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
	} {
		change := everywhere.Wrap(parse(t, c.format, c.text), nil, []string{program, "run"}, all)
		if len(change.Servers) == 0 || change.Servers[0].Reason != c.reason || change.Count() > 0 || string(change.Data) != c.text {
			t.Errorf("%s\n%+v\nwant %q", c.text, change.Servers, c.reason)
		}
	}
}

// A file that the client has written again can still be unwrapped.
func TestUnwrapWhatWasLaidOutAnew(t *testing.T) {
	for _, c := range []struct {
		format     splice.Format
		text, want string
	}{
		{splice.JSON, `{"mcpServers":{"t":{"args":["run","--name","t","--","srv",],"command":"mcpscope"}}}`, `{"mcpServers":{"t":{"args":[],"command":"srv"}}}`},
		{splice.JSON, "{\"mcpServers\":{\"t\":{\"command\":\"/b/mcpscope\",\n\"args\":[\n\"run\",\n\"--\",\n\"srv\",\n\"a\"\n]}}}", "{\"mcpServers\":{\"t\":{\"command\":\"srv\",\n\"args\":[\n\"a\"\n]}}}"},
		{splice.JSON, `{"mcpServers":{"t":{"command":"mcpscope","args":["run","--term-grace","3s","--","srv","--"]}}}`, `{"mcpServers":{"t":{"command":"srv","args":["--"]}}}`},
		{splice.JSON, `{"mcpServers":{"t":{"command":"mcpscope","args":["run","mcpscope","run","x"]}}}`, `{"mcpServers":{"t":{"command":"mcpscope","args":["run","x"]}}}`},
	} {
		change := everywhere.Unwrap(parse(t, c.format, c.text), nil, all)
		if string(change.Data) != c.want {
			t.Errorf("%s\nwant\n%s\n%+v", change.Data, c.want, change.Servers)
		}
	}
}

// A file that was wrapped and unwrapped in two steps has one backup, and is restored from it.
func TestOneBackupOfSeveralSteps(t *testing.T) {
	oneBackup(t, program, "run")
	oneBackup(t, program, "run", "--idle-freeze", "10m")
}

func oneBackup(t *testing.T, runner ...string) {
	t.Helper()
	const bare = `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`
	only := func(name string) func(string) bool { return func(n string) bool { return n == name } }
	one := everywhere.Wrap(parse(t, splice.JSON, bare), nil, runner, only("a"))
	two := everywhere.Wrap(parse(t, splice.JSON, string(one.Data)), one.Backup, runner, all)
	if string(two.Backup) != bare {
		t.Fatalf("the backup is %s", two.Backup)
	}
	for _, s := range everywhere.Servers(parse(t, splice.JSON, string(two.Data))) {
		if s.State != wrapping.Wrapped || !slices.Equal(s.Argv[:len(runner)], runner) {
			t.Errorf("%q is %s", s.Argv, s.State)
		}
	}
	half := everywhere.Unwrap(parse(t, splice.JSON, string(two.Data)), two.Backup, only("b"))
	if !bytes.Equal(half.Data, one.Data) || string(half.Backup) != bare {
		t.Errorf("one less is %s, with the backup %s", half.Data, half.Backup)
	}
	back := everywhere.Unwrap(parse(t, splice.JSON, string(half.Data)), half.Backup, all)
	if string(back.Data) != bare {
		t.Errorf("came back as %s", back.Data)
	}
}

// A file that was changed since keeps the change: the prefix alone goes, and the backup stays, after another
// wrap too.
func TestUnwrapKeepsWhatWasChangedSince(t *testing.T) {
	const bare = `{"mcpServers": {"a": {"command": "x"}}}`
	there := everywhere.Wrap(parse(t, splice.JSON, bare), nil, []string{program, "run"}, all)
	changed := strings.Replace(string(there.Data), "{", `{"theirs": 1, `, 1)
	if again := everywhere.Wrap(parse(t, splice.JSON, changed), there.Backup, []string{program, "run"}, all); string(again.Backup) != bare {
		t.Errorf("after another wrap the backup is %s", again.Backup)
	}
	back := everywhere.Unwrap(parse(t, splice.JSON, changed), there.Backup, all)
	if want := `{"theirs": 1, "mcpServers": {"a": {"command": "x", "args": []}}}`; string(back.Data) != want || string(back.Backup) != bare {
		t.Errorf("%s\nwant\n%s\nwith the backup %s", back.Data, want, back.Backup)
	}
}

// YAML is read as far as it takes to say what to write by hand.
func TestByHand(t *testing.T) {
	d := parse(t, splice.YAML, "# c\nextensions:\n  t: {cmd: npx, args: [-y, 8080], env: {K: secret}}\nmcpServers:\n- {command: x, name: \"8\"}\nmcp:\n  l:\n    command: [x, y]\n  w:\n    command: mcpscope\n    args: [run, --, x]\n")
	var got []string
	for _, s := range everywhere.Servers(d) {
		if s.State == wrapping.Bare {
			got = append(got, s.ByHand([]string{"mcpscope", "run"})...)
		} else {
			got = append(got, s.Name+" is "+string(s.State))
		}
	}
	want := []string{`command: "mcpscope"`, `args: ["run", "--name", "8", "--", "x"]`, `cmd: "mcpscope"`, `args: ["run", "--name", "t", "--", "npx", … its own 2]`,
		`command: ["mcpscope", "run", "--name", "l", "--", "x", … its own 1]`, "w is wrapped"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}
