// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A row is complete: a setting with a value has an argument, and each value of completion is
// valid, and no flag has two meanings.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for i := range table {
		r := &table[i]
		if r.Help == "" || r.For == 0 || r.parse == nil || strings.HasPrefix(r.Name, "-") || seen[r.Name] || r.Short != "" && seen[r.Short] {
			t.Errorf("%+v", r)
		}
		seen[r.Name] = true
		seen[r.Short] = r.Short != ""
		for _, text := range r.Values {
			if err := r.set(Defaults(), text); err != nil {
				t.Errorf("%s %s: %v", r.Name, text, err)
			}
		}
		if r.Where&File != 0 && r.Where&Variable == 0 && !r.List {
			t.Errorf("%s can be set in a file and not in the environment", r.Name)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		of                  Command
		line, operands, err string
		check               func(*Values) bool
	}{
		{Run, "--term-grace 3s cmd -v", "cmd -v", "",
			func(v *Values) bool { return v.Policy.TermGrace.Seconds() == 3 && !v.Output.Verbose }},
		{Run, "-term-grace=3s -- -v", "-v", "",
			func(v *Values) bool { return v.Policy.TermGrace.Seconds() == 3 && !v.Output.Verbose }},
		{Run, "--set memory.min=64M --set=pids.max=3;cpu.weight=5 x", "x", "",
			func(v *Values) bool { return len(v.Limits.Files) == 3 }},
		{Run, "--min-free 512M x", "x", "", func(v *Values) bool { return v.MinFree == 512<<20 }},
		{Run, "--min-free 0 x", "x", "", func(v *Values) bool { return v.MinFree == 0 }},
		{Run, "--min-free max x", "", `--min-free "max": "max" is no size (like 512M or 2G)`, nil},
		{Run, "--require", "", "",
			func(v *Values) bool { return v.Require && v.Given("require") && !v.Given("replace") }},
		{Gateway, "--match a --match b g", "g", "", func(v *Values) bool { return len(v.Gateway.Match) == 2 }},
		{Run, "-qv x", "x", "", func(v *Values) bool { return v.Output.Quiet && v.Output.Verbose }},
		{Run, "-qx x", "", `unknown flag "-qx"`, nil},
		{Run, "--nope=3 x", "", `unknown flag "--nope"`, nil},
		{Run, "--name", "", "flag --name needs a value", nil},
		{Run, "--require=maybe", "", `--require "maybe": "maybe" is neither true nor false`, nil},
	} {
		v := Defaults()
		operands, help, err := v.FromArguments(c.of, strings.Fields(c.line))
		if err != nil {
			if err.Error() != c.err {
				t.Errorf("%s: %v", c.line, err)
			}
			continue
		}
		if help || c.err != "" || strings.Join(operands, " ") != c.operands || !c.check(v) {
			t.Errorf("%s: %q, %v, %+v", c.line, operands, help, v)
		}
	}
	for _, line := range []string{"-h", "--require --help"} {
		if _, help, err := Defaults().FromArguments(Gateway, strings.Fields(line)); !help || err != nil {
			t.Errorf("%s: %v, %v", line, help, err)
		}
	}
}

// A flag counts more than a variable, that more than a file.
func TestSetFlag(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--name t --", "--idle-freeze 5m --name t --"},
		{"", "--idle-freeze 5m"},
		{"--term-grace 3s --idle-freeze 10m --name t --", "--term-grace 3s --idle-freeze 5m --name t --"},
		{"-idle-freeze=10m --require", "-idle-freeze=5m --require"},
		{"-qv --idle-freeze=10m --", "-qv --idle-freeze=5m --"},
		{"--name --idle-freeze -q --", "--idle-freeze 5m --name --idle-freeze -q --"},
	} {
		got, err := SetFlag(Run, strings.Fields(c.args), "idle-freeze", "5m")
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q, %v", c.args, got, err)
		}
	}
	if got, err := SetFlag(Run, []string{"--nope"}, "idle-freeze", "5m"); err == nil {
		t.Errorf("%q", got)
	}
}

func TestGivenFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--":                     "[]",
		"--name t --":            "[{name t [--name t]}]",
		"-idle-freeze=10m --req": "[{idle-freeze 10m [-idle-freeze=10m]} {  [--req]}]",
		"--replace -qv -- -v":    "[{replace true [--replace]} {verbose true [-qv]}]",
		"--nope 1 --name t -- x": "[{  [--nope 1 --name t]}]",
		"--replace x --name t":   "[{replace true [--replace]}]",
	} {
		if got := fmt.Sprint(GivenFlags(Run, strings.Fields(args))); got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

func TestOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nterm-grace = '1m'\neof-grace = '2m'\nreplace = true\nquiet = true\nrequire = true"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv(FileVariable, file)
	t.Setenv("MCPSCOPE_EOF_GRACE", "20s")
	t.Setenv("MCPSCOPE_REQUIRE", "false")
	t.Setenv("MCPSCOPE_NAME", "")
	v := Defaults()
	if _, _, err := v.Parse(Run, []string{"--term-grace", "10s", "--replace=false", "cmd"}); err != nil {
		t.Fatal(err)
	}
	c := ReadFiles()
	if len(c.Problems) > 0 {
		t.Fatal(c.Problems)
	}
	v.FromFile(c.For("x"))
	p := v.Policy
	if p.TermGrace.Seconds() != 10 || p.EOFGrace.Seconds() != 20 || v.Replace || v.Require || !v.Output.Quiet {
		t.Errorf("%+v", v)
	}
	t.Setenv("MCPSCOPE_EOF_GRACE", "x")
	if _, _, err := Defaults().Parse(Run, []string{"cmd"}); err == nil || !strings.HasPrefix(err.Error(), "MCPSCOPE_EOF_GRACE: ") {
		t.Errorf("a bad variable: %v", err)
	}
}

// A limit that a flag gave counts more than the same file's in the key set.
func TestLimitOfAFlagCounts(t *testing.T) {
	v := Defaults()
	if _, _, err := v.FromArguments(Run, []string{"--memory-max", "2M"}); err != nil {
		t.Fatal(err)
	}
	v.FromFile(ParseFiles([]FilePlace{write(t, "[defaults]\nset = 'memory.max=1M; pids.max=5'")}).For("x"))
	if got := fmt.Sprint(v.Limits.Files); got != "[pids.max=5 memory.max=2097152]" {
		t.Error(got)
	}
}

func TestInapplicable(t *testing.T) {
	v := Defaults()
	if _, _, err := v.FromArguments(Gateway, []string{"--memory-max=1M", "--pids-max=2"}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(v.Inapplicable([]string{"memory"})); got != "[pids.max=2]" {
		t.Error(got)
	}
}

// write makes a file that only we may write.
func write(t testing.TB, text string) FilePlace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcpscope.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return FilePlace{Path: path}
}

// said are the problems without the file.
func said(c *FileSettings) []string {
	var all []string
	for _, p := range c.Problems {
		all = append(all, fmt.Sprintf("%d: %s", p.Line, p.Text))
	}
	return all
}

// texts are the settings of a server as "key=text@line", sorted.
func texts(c *FileSettings, server string) string {
	var all []string
	for key, v := range c.For(server) {
		all = append(all, fmt.Sprintf("%s=%s@%d", key, strings.Join(v.Texts, "|"), v.Line))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		text, left string
		want       []string
	}{
		{"", "", nil},
		{"[defaults]\npids-max = 1\nrequire = true\n", "pids-max=1@2 require=true@3", nil},
		{"defaults.pids-max = '1'\nserver.x.require = true", "pids-max=1@1 require=true@2", nil},
		{"[defaults]\npids-mix = 1\nrequire = true", "require=true@3", []string{`2: unknown key "pids-mix"; did you mean pids-max?`}},
		{"[server.x]\nidle-freze = '1m'", "", []string{`2: unknown key "idle-freze"; did you mean idle-freeze?`}},
		{"[server.x]\noops = 1", "", []string{`2: unknown key "oops"`}},
		{"[defaults]\npids-max = 'x'\nrequire = 1", "", []string{`2: pids-max: "x" is no number`, "3: require is true or false, without quotes"}},
		{"[defaults]\nreport = [\n'a',\n]\npids-max = 1", "pids-max=1@5", []string{"2: report is text in quotes"}},
		{"[defaults]\nmatch = ['a b', '*c']\nexcept = []", "except=@3 match=a b|*c@2", nil},
		{"[defaults]\nmatch = 'a'\nexcept = ['b', 1]", "", []string{`2: match is a list of texts in quotes: ["…"]`, `3: except is a list of texts`}},
		{"[defaults]\nmatch = [\n'a', # one\n['b']]\nexcept = true", "", []string{"2: match is a list", "5: except is a list"}},
		{"[server.x]\nmatch = ['a']", "", []string{"2: match belongs in [defaults]: it is for gateways"}},
		{"[defaults]\nconfig = ['a']", "", []string{`2: unknown key "config"`}},
		{"[defaults]\nreport = { a = 1 }", "", []string{"2: report is text in quotes"}},
		{"pids-max = 1", "", []string{`1: "pids-max" belongs in one of [defaults], [server."NAME"] and [client.NAME]`}},
		{"[server]\npids-max = 1", "", []string{`2: "pids-max" belongs in one of [defaults], `}},
		{"[servers.x]\npids-max = 1", "", []string{`1: unknown table [servers.x]; tables are [defaults], [server."NAME"] and [client.NAME]`}},
		{"[server.a.b]\npids-max = 1", "", []string{"1: unknown table [server.a.b]; "}},
		{"[server.'']\npids-max = 1", "", []string{`2: "pids-max" belongs in`}},
		{"[[server]]\npids-max = 1", "", []string{"1: unknown table [server]; "}},
		{"[defaults]\npids-max = 1\n\nrequire = tru\n", "", []string{"4: not TOML, so the file is ignored: "}},
		{"[client.x]\npath = '~/x.json'\npids-max = 1", "", []string{`3: unknown key "pids-max"; [client.NAME] has`}},
		{"[client.x]\nformat = 'ini'\nservers = []", "", []string{`2: format: "ini" is none of json, toml, yaml`, "3: servers has the keys", "2: [client.x] has no path"}},
		{"[client.'a b']\npath = '/x'", "", []string{"2: the name of a client has letters"}},
		{"client.x.path = '../x'", "", []string{`1: path: "../x" is not the path of a file`, "1: [client.x] has no path"}},
		{"client.x.path = 1", "", []string{"1: path is text in quotes", "1: [client.x] has no path"}},
		{"[defaults]\npids-max = 1\npids-max = 2", "", []string{"3: not TOML, so the file is ignored: "}},
		{"[defaults]\npids-max = 1\n[server.x]\n[defaults]\n", "", []string{"4: not TOML, so the file is ignored: "}},
		{"server.x = { report = 'e' }\n[server.x]\n", "", []string{"2: not TOML, so the file is ignored: "}},
		{"\xff", "", []string{"1: not TOML, so the file is ignored: "}},
	} {
		got := ParseFiles([]FilePlace{write(t, c.text)})
		if !slices.EqualFunc(said(got), c.want, strings.HasPrefix) || texts(got, "x") != c.left {
			t.Errorf("%.60q: %q, %q; want %q, %q", c.text, said(got), texts(got, "x"), c.want, c.left)
		}
	}
}

// What TOML reads as the same is the same, however it is written.
func TestFormsOfATable(t *testing.T) {
	for _, text := range []string{
		"[server.git]\nreport = 'e'\npids-max = 1",
		"server.git.report = 'e'\nserver.git.pids-max = 1",
		"server.git = { report = 'e', pids-max = 1 }",
		"server = { git = { report = 'e', pids-max = 1 } }",
		"server = { git.report = 'e', 'git'.pids-max = 1 }",
		"[server]\ngit = { report = 'e', pids-max = 1 }",
		"[server]\ngit.report = 'e'\ngit.pids-max = 1",
	} {
		c := ParseFiles([]FilePlace{write(t, text)})
		values := c.For("git")
		if len(c.Problems) > 0 || len(values) != 2 || values["report"].Texts[0] != "e" || values["pids-max"].Texts[0] != "1" {
			t.Errorf("%q: %v, %v", text, said(c), values)
		}
	}
	c := ParseFiles([]FilePlace{write(t, "client.own = { path = '~/.own/mcp.json' }\ndefaults = { report = 'e' }")})
	if len(c.Problems) > 0 || len(c.Clients) != 1 || texts(c, "x") != "report=e@2" {
		t.Errorf("%v, %+v", said(c), c)
	}
}

// A client's keys can be in several files, of which the last one wins.
func TestClients(t *testing.T) {
	c := ParseFiles([]FilePlace{
		write(t, "[client.own]\npath = '~/.own/mcp.json'\nservers = ['mcp', '*']\n[client.b]\npath = 'b.yaml'"),
		write(t, "[client.own]\npath = '/etc/own/*.conf'\nformat = 'toml'"),
	})
	var got []string
	for _, f := range c.Clients {
		got = append(got, fmt.Sprintf("%s %s %s %q", f.Name, f.Path, f.Format, f.Servers))
	}
	want := []string{`own /etc/own/*.conf toml ["mcp" "*"]`, `b b.yaml  ["mcpServers"]`}
	if len(c.Problems) > 0 || !slices.Equal(got, want) {
		t.Errorf("%q, %q; want %q", got, said(c), want)
	}
}

// The keep of a client counts for its servers, before [defaults], and after a table of servers.
func TestKeepOfClient(t *testing.T) {
	files := ParseFiles([]FilePlace{
		write(t, "[client.a]\nkeep = ['ssh', 'epmd']\n[defaults]\nkeep = ['tmux']\nkeep-for = '1h'\n[server.git]\nkeep = ['gpg-agent']"),
	})
	if len(files.Problems) > 0 || len(files.Clients) > 0 {
		t.Fatalf("%v, %+v", files.Problems, files.Clients)
	}
	for _, c := range []struct{ server, client, want string }{
		{"x", "", "tmux"}, {"x", "b", "tmux"}, {"x", "a", "ssh epmd"}, {"git", "a", "gpg-agent"}, {"git", "b", "gpg-agent"},
	} {
		values := files.For(c.server)
		files.AddClient(values, c.client)
		v := Defaults()
		v.FromFile(values)
		if got := strings.Join(v.Keep.Patterns, " "); got != c.want || v.Keep.For != time.Hour {
			t.Errorf("%s of %q keeps %q for %v, want %q for an hour", c.server, c.client, got, v.Keep.For, c.want)
		}
	}
	if _, _, err := Defaults().FromArguments(Run, []string{"--keep", "*", "--", "x"}); err == nil {
		t.Error("a pattern that keeps all daemons is accepted")
	}
}

// A table of a client that is not known, and has no path, is told once.
func TestUnknownClients(t *testing.T) {
	files := ParseFiles([]FilePlace{write(t, "[client.aa]\nkeep = ['ssh']\n[client.aab]\nkeep = ['ssh']\nkeep-for = '1h'\n"+
		"[client.own]\npath = '.own.json'\nkeep = ['ssh']")})
	lines := files.UnknownClients([]string{"aa", "zz"})
	if len(lines) != 1 || !strings.Contains(lines[0], `:4: no known client is called "aab"; did you mean aa?`) {
		t.Errorf("%q", lines)
	}
}

// The more exact section counts, then the later one, whichever file it is in; of the same
// section in two files the later file, key by key.
func TestPrecedence(t *testing.T) {
	first := write(t, `
[server.git]
pids-max = 1
[server."git*"]
report = "a"
require = true
[defaults]
pids-max = 2
report = "b"
`)
	second := write(t, `
[defaults]
pids-max = 3
[server."gi*"]
pids-max = 4
report = "c"
[server."git*"]
report = "e"
`)
	c := ParseFiles([]FilePlace{first, second})
	if len(c.Problems) > 0 {
		t.Errorf("%+v", c)
	}
	for server, want := range map[string]string{
		"git": "pids-max=1@3 report=e@8 require=true@6", "git/b": "pids-max=4@5 report=e@8 require=true@6",
		"gi": "pids-max=4@5 report=c@6",
		"a":  "pids-max=3@3 report=b@9", "": "pids-max=3@3 report=b@9",
	} {
		if got := texts(c, server); got != want {
			t.Errorf("%q: %s, want %s", server, got, want)
		}
	}
	// equally exact, the later one counts
	for text, want := range map[string]string{
		"[server.'*b']\npids-max = 1\n[server.'a*']\npids-max = 2":  "pids-max=2@4",
		"[server.'ab']\npids-max = 1\n[server.'a*b']\npids-max = 2": "pids-max=1@2",
	} {
		if got := texts(ParseFiles([]FilePlace{write(t, text)}), "ab"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if v := c.For("git")["report"]; v.File != second.Path {
		t.Errorf("%+v", v)
	}
}

func TestFilesThatAreNotRead(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, uid, size int) FilePlace {
		path := filepath.Join(dir, name)
		text := "[defaults]\npids-max = 1\n#" + strings.Repeat("x", size)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode), os.Chown(path, uid, -1)); err != nil {
			t.Fatal(err)
		}
		return FilePlace{Path: path}
	}
	self := os.Geteuid()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("linked", 0o644, self, 0).Path, link); err != nil {
		t.Fatal(err)
	}
	type row struct {
		place FilePlace
		want  string // "" for one that counts, "-" for one that is not missed
	}
	rows := []row{
		{file("own", 0o660, self, 0), ""},
		{FilePlace{Path: link}, ""},
		{file("open", 0o666, self, 0), "ignored: writable for all users"},
		{file("long", 0o600, self, maxText), "ignored: longer than 65536 bytes"},
		{FilePlace{Path: dir}, "ignored: not a regular file"},
		{FilePlace{Path: dir + "/none"}, "-"},
		{FilePlace{Path: dir + "/none", Asked: true}, "no such file or directory"},
	}
	if self == 0 {
		theirs := file("theirs", 0o644, 65533, 0)
		rows = append(rows, row{theirs, "ignored: it belongs to uid 65533, not to root or uid 0"})
	}
	for _, r := range rows {
		c := ParseFiles([]FilePlace{r.place})
		var want []string
		if r.want != "" && r.want != "-" {
			want = []string{"0: " + r.want}
		}
		if !slices.Equal(said(c), want) || (texts(c, "x") == "") == (r.want == "") {
			t.Errorf("%s: %q, %q", r.place.Path, said(c), texts(c, "x"))
		}
	}
}

func TestPlaces(t *testing.T) {
	for want, env := range map[string]map[string]string{
		" /h/.config/mcpscope/mcpscope.toml": {"HOME": "/h"},
		" /x/mcpscope/mcpscope.toml rel":     {"HOME": "/h", "XDG_CONFIG_HOME": "/x", FileVariable: "rel"},
	} {
		var got []string
		for _, p := range FilePlaces(func(key string) string { return env[key] }) {
			got = append(got, p.Path)
		}
		if strings.Join(got, " ") != system+want {
			t.Errorf("%v: %q", env, got)
		}
	}
}

// Without HOME the home is that of the password database.
func TestHome(t *testing.T) {
	self, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for home, want := range map[string]string{"/h": "/h", "": self.HomeDir, "relative": self.HomeDir} {
		if got := Home(func(string) string { return home }); got != want {
			t.Errorf("HOME=%q: %q, want %q", home, got, want)
		}
	}
}

// Whatever is in a file: each value that counts is one, on a line of it, and each complaint
// is of a line that there is.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"[defaults]\npids-max = 1\nrequire = true\n[server.\"git*\"]\nreport = 'x'\n",
		"defaults = { pids-max = '1', report = \"\\u0000\" }\nserver = { x = { pids-max = '2' } }",
		"[[server]]\na = [1, {b = 2}]\n[server.a.b]\n", "[defaults]\n[defaults]\npids-max=1\npids-max=1", "[server.'[']\n=", "a.b.c.d = 1979-05-27T07:32:00Z\n\"\"=1",
	} {
		f.Add([]byte(s), "git")
	}
	f.Fuzz(func(t *testing.T, text []byte, server string) {
		c := &FileSettings{}
		c.parse("file", text)
		lines := strings.Count(string(text), "\n") + 1
		for key, v := range c.For(server) {
			r := findRow(key)
			if r == nil || r.Where&File == 0 || !r.List && len(v.Texts) != 1 {
				t.Errorf("%s = %q", key, v.Texts)
				continue
			}
			for _, text := range v.Texts {
				if err := r.set(Defaults(), text); err != nil {
					t.Errorf("%s = %q: %v", key, v.Texts, err)
				}
			}
			if v.Line < 1 || v.Line > lines || v.File != "file" {
				t.Errorf("%s: %+v of %d lines", key, v, lines)
			}
		}
		for _, p := range c.Problems {
			if p.Line < 1 || p.Line > lines {
				t.Errorf("%+v of %d lines", p, lines)
			}
		}
	})
}

// Each section has its limits with their lines. Those of a later file replace those of the same section.
func TestPlacedLimits(t *testing.T) {
	dir := t.TempDir()
	var places []FilePlace
	for i, text := range []string{
		"[defaults]\nmemory-max = \"1G\"\npids-max = 7\n",
		"[defaults]\nmemory-max = \"2G\"\n[server.\"git*\"]\nset = \"cpu.weight=5;memory.high=1M\"\n",
	} {
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		places = append(places, FilePlace{Path: file, Asked: true})
	}
	c := ParseFiles(places)
	if len(c.Problems) > 0 {
		t.Fatal(c.Problems)
	}
	var got []string
	for _, l := range c.Limits() {
		got = append(got, fmt.Sprintf("%s %s", strings.TrimPrefix(l.Place, dir), l))
	}
	want := []string{
		"/0:3 pids.max=7", "/1:2 memory.max=2147483648", "/1:4 cpu.weight=5", "/1:4 memory.high=1048576",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// The limits of a command line are in flags and variables.
	variable := func(name string) string { return map[string]string{"MCPSCOPE_PIDS_MAX": "3"}[name] }
	for args, want := range map[string]string{
		"--memory-max 1M --name git -- x": "[pids.max=3 memory.max=1048576]",
		"--name other -- x":               "[pids.max=3]",
		"--memory-mx 1M -- x":             "[]",
	} {
		if limits := LimitsOfRun(strings.Fields(args), variable); fmt.Sprint(limits) != want {
			t.Errorf("%s: %v", args, limits)
		}
	}
}
