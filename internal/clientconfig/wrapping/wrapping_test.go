// SPDX-License-Identifier: Apache-2.0

package wrapping_test

import (
	"bytes"
	"cmp"
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
	Starts: func(program string) bool { return !strings.HasPrefix(program, "/gone/") },
	SetFlag: func(flags []string, name, value string) ([]string, error) {
		if i := slices.Index(flags, "--"+name); i >= 0 {
			return slices.Replace(slices.Clone(flags), i+1, i+2, value), nil
		}
		return append([]string{"--" + name, value}, flags...), nil
	},
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

// plain is the runner that wrap has without flags.
var plain = wrapping.Runner{Program: program}

func freezing(after string) wrapping.Runner {
	return wrapping.Runner{Program: program, Flags: []wrapping.Flag{{Name: "idle-freeze", Value: after}}}
}

func parse(t *testing.T, f splice.Format, text string) *splice.Document {
	t.Helper()
	d, err := splice.Parse(f, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// A client on Windows cannot start mcpscope. Its file is reached from Linux by its path, and servers of Windows tell
// it from others.
func TestFileOfWindows(t *testing.T) {
	for command, want := range map[string]bool{
		"wsl": true, "wsl.exe": true, `C:\Windows\System32\wsl.exe`: true, "c:/tools/node.exe": true, "cmd": true, "CMD.EXE": true,
		"npx": false, "/mnt/c/Windows/System32/powershell.exe": false, "wslpath": false, "cmdproxy": false, "/usr/bin/cmd": false,
	} {
		escaped := strings.ReplaceAll(command, `\`, `\\`)
		d := parse(t, splice.JSON, `{"mcpServers":{"a":{"command":"`+escaped+`"},"b":{"command":"npx"}}}`)
		for _, s := range everywhere.Servers(d) {
			if got := s.State == wrapping.NotEditable && strings.Contains(s.Reason, "Windows"); got != want {
				t.Errorf("%s, %s: %s, %q", command, s.Name, s.State, s.Reason)
			}
		}
	}
	reader := everywhere
	reader.IsOfWindows = true
	d := parse(t, splice.JSON, `{"mcpServers":{"a":{"command":"npx"},"b":{"command":"/usr/local/bin/mcpscope","args":["run","--","cmd"]}}}`)
	servers := reader.Servers(d)
	if servers[0].State != wrapping.NotEditable || servers[1].State != wrapping.Wrapped || servers[1].Reason != "" {
		t.Errorf("%+v", servers)
	}
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
		{"in a transport, as Cline has it", splice.JSON,
			`{"mcpServers":{"t":{"transport":{"type":"stdio","command":"npx","args":["-y","foo"]}}}}`,
			`{"mcpServers":{"t":{"transport":{"type":"stdio","command":"/usr/local/bin/mcpscope","args":["run", "--name", "t", "--", "npx", "-y","foo"]}}}}`},
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
		{"a block list", splice.YAML, "# mine\nmcp_servers:\n  t: # why\n    command: npx # of Node\n    args:\n      - -y # yes\n      - 8080\n    env:\n      K: v\n",
			"# mine\nmcp_servers:\n  t: # why\n    command: \"/usr/local/bin/mcpscope\" # of Node\n    args:\n      - \"run\"\n      - \"--name\"\n      - \"t\"\n      - \"--\"\n      - npx\n      - -y # yes\n      - 8080\n    env:\n      K: v\n"},
		{"a block list in the column of its key, CRLF", splice.YAML, "mcp_servers:\r\n  t:\r\n    args:\r\n    - a\r\n    command: 'it''s'\r\n",
			"mcp_servers:\r\n  t:\r\n    args:\r\n    - \"run\"\r\n    - \"--name\"\r\n    - \"t\"\r\n    - \"--\"\r\n    - 'it''s'\r\n    - a\r\n    command: \"/usr/local/bin/mcpscope\"\r\n"},
		{"a flow list", splice.YAML, "extensions:\n  t: {cmd: npx, args: [-y, \"a b\"], type: stdio}\n",
			"extensions:\n  t: {cmd: \"/usr/local/bin/mcpscope\", args: [\"run\", \"--name\", \"t\", \"--\", \"npx\", -y, \"a b\"], type: stdio}\n"},
		{"no args, a map of lines", splice.YAML, "\uFEFFextensions:\n  t:\n    cmd: ü,[x]\n    type: stdio",
			"\uFEFFextensions:\n  t:\n    args: [\"run\", \"--name\", \"t\", \"--\", \"ü,[x]\"]\n    cmd: \"/usr/local/bin/mcpscope\"\n    type: stdio"},
		{"no args, a flow map", splice.YAML, "mcpServers: {t: {command: x, env: {}}}\n",
			"mcpServers: {t: {command: \"/usr/local/bin/mcpscope\", args: [\"run\", \"--name\", \"t\", \"--\", \"x\"], env: {}}}\n"},
		{"a list of servers", splice.YAML, "mcpServers:\n- command: \"x\"\n  name: a\n- name: b\n  command: y\n  args: []\n",
			"mcpServers:\n- args: [\"run\", \"--name\", \"a\", \"--\", \"x\"]\n  command: \"/usr/local/bin/mcpscope\"\n  name: a\n- name: b\n  command: \"/usr/local/bin/mcpscope\"\n  args: [\"run\", \"--name\", \"b\", \"--\", \"y\"]\n"},
		{"an argument of several lines", splice.YAML, "mcp_servers:\n  t:\n    command: sh\n    args:\n      - -c\n      - |\n        exec x\n        # y\n",
			"mcp_servers:\n  t:\n    command: \"/usr/local/bin/mcpscope\"\n    args:\n      - \"run\"\n      - \"--name\"\n      - \"t\"\n      - \"--\"\n      - sh\n      - -c\n      - |\n        exec x\n        # y\n"},
		{"one list of lines", splice.YAML, "mcp:\n  t:\n    command:\n      - npx\n      - -y\n",
			"mcp:\n  t:\n    command:\n      - \"/usr/local/bin/mcpscope\"\n      - \"run\"\n      - \"--name\"\n      - \"t\"\n      - \"--\"\n      - npx\n      - -y\n"},
		{"an anchor of another value", splice.YAML, "x: &x {a: 1}\nmcp_servers:\n  t: {command: x, env: *x}\n",
			"x: &x {a: 1}\nmcp_servers:\n  t: {command: \"/usr/local/bin/mcpscope\", args: [\"run\", \"--name\", \"t\", \"--\", \"x\"], env: *x}\n"},
	} {
		t.Run(string(c.format)+" "+c.what, func(t *testing.T) {
			d := parse(t, c.format, c.bare)
			there := everywhere.Wrap(d, nil, plain, all)
			if string(there.Data) != c.wanted || string(there.Backup) != c.bare {
				t.Fatalf("wrapped to\n%s\nwant\n%s\n%+v", there.Data, c.wanted, there.Servers)
			}
			d = parse(t, c.format, c.wanted)
			if again := everywhere.Wrap(d, there.Backup, plain, all); again.Count() > 0 || string(again.Data) != c.wanted {
				t.Errorf("a second wrap:\n%s", again.Data)
			}
			back := everywhere.Unwrap(d, there.Backup, all)
			if string(back.Data) != c.bare {
				t.Errorf("came back as\n%s\nwant\n%s", back.Data, c.bare)
			}
		})
	}
}

const fixed = "its YAML has an anchor or a text of several lines"

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
		{splice.JSON, `{"mcpServers": {"t": {"command": "~/x"}}}`, "its command begins with ~, which clients may not expand in args: write the full path"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x", "args": "-y"}}}`, "its args are no list"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x", "args": [["-y"]]}}}`, "its args are more than texts"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x", "command": "y"}}}`, `there is more than one "command"`},
		{splice.JSON, `{"mcpServers": {"t": {"command": "x"}}, "mcpServers": {}}`, `there is more than one "mcpServers"`},
		{splice.YAML, "mcp_servers:\n  t: &t {command: x}\n  u: *t\n", fixed},
		{splice.YAML, "mcp_servers: &m\n  t: {command: x}\n", fixed},
		{splice.YAML, "mcp_servers:\n  t:\n    command: >-\n      x\n", fixed},
		{splice.YAML, "mcp_servers:\n  t:\n    command: \"x\\\n      y\"\n", fixed},
		{splice.YAML, "mcp_servers:\n  t:\n    command: !!str x\n", fixed},
		{splice.YAML, "mcp_servers:\n  t: {command: x, args: &a [y]}\n", fixed},
		{splice.YAML, "mcp_servers:\n  t: {command: x}\n---\nmcp_servers: {}\n", "the file has several YAML documents"},
		{splice.YAML, "x: \"a\u2028b\"\nmcp_servers:\n  t: {command: x}\n", splice.OtherLineBreaks},
		{splice.YAML, "x: 1 # a\u0085#b\nmcp_servers:\n  t: {command: x}\n", splice.OtherLineBreaks},
		{splice.YAML, "x: 1\ry: \u2029\nmcp_servers:\n  t: {command: x}\r\n", splice.OtherLineBreaks},
		{splice.YAML, "mcp_servers:\n  t: {command: x}\n  t: {command: y}\n", `there is more than one "t"`},
		{splice.YAML, "x: &x {command: y}\nmcp_servers:\n  t:\n    <<: *x\n", "it has no command"},
		{splice.JSON, `{"mcpServers": {"t": {"command": "/x/mcpscope", "args": ["run", "--nope", "x"]}}}`, "its own command cannot be told from the flags before it"},
	} {
		change := everywhere.Wrap(parse(t, c.format, c.text), nil, plain, all)
		if len(change.Servers) == 0 || change.Servers[0].Reason != c.reason || change.Count() > 0 || string(change.Data) != c.text {
			t.Errorf("%s\n%+v\nwant %q", c.text, change.Servers, c.reason)
		}
	}
}

// A second wrap changes flags and a program that no longer exists, keeps flags that were written by hand, and
// unwrap still returns to the bytes before the first.
func TestWrapAgain(t *testing.T) {
	chosen := wrapping.Runner{Program: "/new/mcpscope", Chosen: true}
	for _, c := range []struct {
		what, wrapped string
		runner        wrapping.Runner
		want          string
	}{
		{"a flag", `{"mcpServers": {"t": {"command": "/b/mcpscope", "args": ["run", "--name", "t", "--", "x"]}}}`, freezing("10m"),
			`{"mcpServers": {"t": {"command": "/b/mcpscope", "args": ["run", "--idle-freeze", "10m", "--name", "t", "--", "x"]}}}`},
		{"another value, and flags of a person", `{"mcpServers": {"t": {"command": "/b/mcpscope", "args": ["run", "--term-grace", "3s", "--idle-freeze", /* long */ "1h", "--", "x"]}}}`, freezing("10m"),
			`{"mcpServers": {"t": {"command": "/b/mcpscope", "args": ["run", "--term-grace", "3s", "--idle-freeze", /* long */ "10m", "--", "x"]}}}`},
		{"the same value", `{"mcpServers": {"t": {"command": "/b/mcpscope", "args": ["run", "--idle-freeze", "10m", "--", "x"]}}}`, freezing("10m"), ""},
		{"a program that is gone", `{"mcpServers": {"t": {"command": "/gone/mcpscope", "args": ["run", "--", "x"]}}}`, plain,
			`{"mcpServers": {"t": {"command": "/usr/local/bin/mcpscope", "args": ["run", "--", "x"]}}}`},
		{"one list", `{"mcp": {"t": {"type": "local", "command": ["/gone/mcpscope", "run", "--", "x"]}}}`, freezing("5m"),
			`{"mcp": {"t": {"type": "local", "command": ["/usr/local/bin/mcpscope", "run", "--idle-freeze", "5m", "--", "x"]}}}`},
		{"a program that was chosen", `{"mcpServers": {"t": {"command": "/b/mcpscope", "args": ["run", "x"]}}}`, chosen,
			`{"mcpServers": {"t": {"command": "/new/mcpscope", "args": ["run", "x"]}}}`},
		{"another program that works", `{"mcpServers": {"t": {"command": "/b/mcpscope", "args": ["run", "x"]}}}`, plain, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			change := everywhere.Wrap(parse(t, splice.JSON, c.wrapped), nil, c.runner, all)
			want := cmp.Or(c.want, c.wrapped)
			if string(change.Data) != want || (change.Count() == 0) != (c.want == "") {
				t.Errorf("%s\nwant\n%s\n%+v", change.Data, want, change.Servers)
			}
		})
	}
}

func TestUnwrapAfterSeveralWraps(t *testing.T) {
	const bare = `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "args": []}}}`
	onlyB := func(name string) bool { return name == "b" }
	change := everywhere.Wrap(parse(t, splice.JSON, bare), nil, plain, all)
	change = everywhere.Wrap(parse(t, splice.JSON, string(change.Data)), change.Backup, freezing("10m"), onlyB)
	if change.Count() != 1 {
		t.Fatalf("%d servers have the flag now: %s", change.Count(), change.Data)
	}
	back := everywhere.Unwrap(parse(t, splice.JSON, string(change.Data)), change.Backup, all)
	if string(back.Data) != bare {
		t.Errorf("came back as %s", back.Data)
	}
}

// A server that was added between two wraps is in the backup, and unwrap returns to the bytes that a file
// without mcpscope would have.
func TestAServerThatWasAddedLater(t *testing.T) {
	for _, c := range []struct {
		format      splice.Format
		bare, added string
		where       string // before that text
	}{
		{splice.JSON, `{"mcpServers": {"a": {"command": "x"}}}`, `, "b": {"command": "y"}`, "}}"},
		{splice.JSON, `{"mcpServers": {"a": {"command": "x"}}}`, `"b": {"command": "y"}, `, `"a"`},
		{splice.TOML, "[mcp_servers.a]\ncommand = 'x'\n", "[mcp_servers.b]\ncommand = 'y'\n", ""},
		{splice.YAML, "mcp_servers:\n  a: {command: x}\n", "  b: {command: y}\n", ""},
		{splice.JSON, `{"mcpServers": {"a": {"command": "x", "env": {"K": "v"}}}}`, `w`, `"}}}}`},
	} {
		change := func(text string) string {
			i := len(text)
			if c.where != "" {
				i = strings.Index(text, c.where)
			}
			return text[:i] + c.added + text[i:]
		}
		there := everywhere.Wrap(parse(t, c.format, c.bare), nil, plain, all)
		changed := change(string(there.Data))
		again := everywhere.Wrap(parse(t, c.format, changed), there.Backup, plain, all)
		if want := change(c.bare); string(again.Backup) != want {
			t.Errorf("the backup is\n%s\nwant\n%s\nof\n%s", again.Backup, want, again.Data)
		}
		back := everywhere.Unwrap(parse(t, c.format, string(again.Data)), again.Backup, all)
		if want := change(c.bare); string(back.Data) != want || string(back.Backup) != want {
			t.Errorf("came back as\n%s\nwant\n%s", back.Data, want)
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
		{splice.YAML, "mcp_servers:\n  t:\n    command: mcpscope\n    args:\n      - run\n      - --\n      - uvx\n      - a\n", "mcp_servers:\n  t:\n    command: uvx\n    args:\n      - a\n"},
		{splice.YAML, "mcp_servers:\n  t:\n    args:\n    - run\n    - uvx\n    # end\n    command: mcpscope\n", "mcp_servers:\n  t:\n    args: []\n    # end\n    command: uvx\n"},
		{splice.YAML, "extensions:\n  t: {cmd: mcpscope, args: [run, --, 8080, a]}\n", "extensions:\n  t: {cmd: \"8080\", args: [a]}\n"},
	} {
		change := everywhere.Unwrap(parse(t, c.format, c.text), nil, all)
		if string(change.Data) != c.want {
			t.Errorf("%s\nwant\n%s\n%+v", change.Data, c.want, change.Servers)
		}
	}
}

// A file that was wrapped and unwrapped in two steps has one backup, and is restored from it.
func TestOneBackupOfSeveralSteps(t *testing.T) {
	oneBackup(t, plain, program, "run")
	oneBackup(t, freezing("10m"), program, "run", "--idle-freeze", "10m")
}

func oneBackup(t *testing.T, runner wrapping.Runner, prefix ...string) {
	t.Helper()
	const bare = `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`
	only := func(name string) func(string) bool { return func(n string) bool { return n == name } }
	one := everywhere.Wrap(parse(t, splice.JSON, bare), nil, runner, only("a"))
	two := everywhere.Wrap(parse(t, splice.JSON, string(one.Data)), one.Backup, runner, all)
	if string(two.Backup) != bare {
		t.Fatalf("the backup is %s", two.Backup)
	}
	for _, s := range everywhere.Servers(parse(t, splice.JSON, string(two.Data))) {
		if s.State != wrapping.Wrapped || !slices.Equal(s.Argv[:len(prefix)], prefix) {
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

// A file that was changed since keeps the change: the prefix alone goes. The backup stays after another wrap, and
// after an unwrap if it has what a person could miss.
func TestUnwrapKeepsWhatWasChangedSince(t *testing.T) {
	const bare = `{"mcpServers": {"a": {"command": "x"}}}`
	for _, c := range []struct {
		what, before, from, to string
		keeps                  bool
	}{
		{"written anew", bare, "{", `{"theirs": 1, `, false},
		{"another command", bare, `"x"`, `"z"`, true},
		{"another variable", bare, `"command"`, `"env": {"K": "v"}, "command"`, true},
		{"another server", bare, `"a": {`, `"b": {"command": "y"}, "a": {`, false},
		{"a server that is lost", `{"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://y"}}}`, `, "b": {"url": "http://y"}`, "", true},
		{"a comment that is lost", "{ // mine\n" + bare[1:], "// mine", "", true},
		{"a comment that is new", bare, "{", "{ // mine\n", true},
	} {
		there := everywhere.Wrap(parse(t, splice.JSON, c.before), nil, plain, all)
		changed := "\n" + strings.Replace(string(there.Data), c.from, c.to, 1) + "\n" // in several places
		again := everywhere.Wrap(parse(t, splice.JSON, changed), there.Backup, plain, all)
		if string(again.Backup) != c.before {
			t.Errorf("%s: after another wrap the backup is %s", c.what, again.Backup)
		}
		back := everywhere.Unwrap(parse(t, splice.JSON, changed), there.Backup, all)
		if wrapping.AnyWrapped(back.After) || !strings.Contains(string(back.Data), c.to) {
			t.Errorf("%s: %s", c.what, back.Data)
		}
		backup := string(back.Data) // none is left
		if c.keeps {
			backup = c.before
		}
		if string(back.Backup) != backup {
			t.Errorf("%s: %s\nwith the backup %s", c.what, back.Data, back.Backup)
		}
	}
}

// The lines for a person to write stand for servers that mcpscope cannot edit.
func TestLinesByHand(t *testing.T) {
	d := parse(t, splice.YAML, "extensions:\n  t: &t {cmd: npx, args: [-y, 8080], env: {K: secret}}\nmcpServers:\n- &u {command: x, name: \"8\"}\nmcp:\n  l: &l\n    command: [x, y]\n  w: &w\n    command: mcpscope\n    args: [run, --, x, y]\n")
	var got []string
	for _, s := range everywhere.Servers(d) {
		prefix, err := everywhere.WrappedPrefix(&s, wrapping.Runner{Program: "mcpscope"})
		if err != nil {
			t.Fatal(err)
		}
		if s.IsWrapped() {
			prefix = nil
		}
		got = append(got, s.Lines(prefix)...)
	}
	want := []string{`command: "mcpscope"`, `args: ["run", "--name", "8", "--", "x"]`, `cmd: "mcpscope"`, `args: ["run", "--name", "t", "--", "npx", …the 2 arguments that are there now]`,
		`command: ["mcpscope", "run", "--name", "l", "--", "x", …the argument that is there now]`, `command: "x"`, `args: […the argument that is there now]`}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// Augment joins command and arguments to a line for a shell, without quotes.
func TestWrapForAShell(t *testing.T) {
	r := everywhere
	r.Shell = true
	d := parse(t, splice.JSON, `{"mcpServers":{"my $(server)":{"command":"npx","args":["-y","foo"]}}}`)
	c := r.Wrap(d, nil, plain, all)
	want := `"args":["run", "--name", "my---server-", "--", "npx", "-y","foo"]`
	if !strings.Contains(string(c.Data), want) {
		t.Errorf("no %s: %s", want, c.Data)
	}
}

func TestARepeatedKeyWithoutAName(t *testing.T) {
	d := parse(t, splice.JSON, `{"":0,"":"","mcp":{"0":{"command":"0"}}}`)
	if all := everywhere.Servers(d); len(all) != 1 || all[0].State != wrapping.NotEditable {
		t.Errorf("%+v", all)
	}
}
