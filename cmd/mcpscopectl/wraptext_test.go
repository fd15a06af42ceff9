// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/programs"
)

// wantsSaid compares all that a command prints with the expected output.
func (u *homeUser) wantsSaid(want said, command ...string) {
	u.Helper()
	if got := say(command...); got != want {
		u.Errorf("%q: %+v\nwant %+v", command, got, want)
	}
}

// A mistake in the flags of wrap changes nothing.
func TestMistakesOfWrap(t *testing.T) {
	u := newUser(t)
	const hint = "mcpscope: hint: mcpscope help wrap\n"
	u.wantsSaid(said{cli.ExitUsage, "", "mcpscope: wrap: --json needs --list\n" + hint}, "wrap", "--json")
	u.wantsSaid(said{cli.ExitUsage, "", "mcpscope: wrap: --list and --check exclude each other\n" + hint}, "wrap", "--list", "--check")
	u.wantsSaid(said{cli.ExitUsage, "", "mcpscope: wrap: --idle-freeze: \"soon\" is no duration (like 1.2s, 500ms, 1d, 0 or infinity)\n" + hint},
		"wrap", "--program", u.program, "--idle-freeze", "soon")
	u.wantsSaid(said{cli.ExitUsage, "", "mcpscope: wrap: unknown flag \"--nope\"\n" + hint}, "wrap", "--nope")
	const ofRun = "mcpscope: wrap: unknown flag \"--memory-max\", which is one of run\n" +
		"mcpscope: hint: put it into ~/.config/mcpscope/mcpscope.toml: a line [server.\"NAME\"], and below it memory-max = \"VALUE\"\n"
	u.wantsSaid(said{cli.ExitUsage, "", ofRun}, "wrap", "--memory-max", "1G", "--server", "time")
	u.wantsFile(cursor)
}

// Without a program that lasts, wrap changes nothing.
func TestWrapWithoutAProgram(t *testing.T) {
	u := newUser(t)
	const hint = "hint: install both programs permanently, or select an installed one: mcpscope wrap --program PATH\n"
	u.wants(1, []string{"cannot wrap: ", u.home + "/none: no such file or directory", hint}, "wrap", "--program", u.home+"/none")
	cached := filepath.Join(u.home, "_npx/3f2a/bin/mcpscope")
	u.wants(1, []string{"cannot wrap: " + cached + " is in the cache of npx", "hint: npm install -g mcpscope, then mcpscope wrap\n"},
		"wrap", "--program", cached)
	t.Run("in a temporary directory", func(t *testing.T) {
		own, err := programs.Own()
		if err != nil || !strings.HasPrefix(own, os.TempDir()+"/") {
			t.Skipf("the test is %s, which is in no temporary directory", own)
		}
		runner := filepath.Join(filepath.Dir(own), programs.Runner)
		u.wantsSaid(said{cli.ExitFailure, "", "mcpscope: cannot wrap: mcpscope is in a temporary directory: " + runner + "\nmcpscope: " + hint}, "wrap")
	})
	replaceRunner(t, "")
	u.wants(1, []string{"cannot wrap: mcpscope is not installed: there is no ", hint}, "wrap")
	u.wantsFile(cursor)
}

// Both commands fail for a name that no client, file or server has.
func TestNamesThatNothingHas(t *testing.T) {
	u := newUser(t)
	for _, verb := range []string{"wrap", "unwrap"} {
		args := []string{verb}
		if verb == "wrap" {
			args = append(args, "--program", u.program)
		}
		u.wantsSaid(said{cli.ExitFailure, "", "mcpscope: cannot " + verb + ": there is no server \"clock\"\n"},
			append(args, "--server", "time", "--server", "clock")...)
		missing := filepath.Join(u.home, "none.json")
		u.wantsSaid(said{cli.ExitFailure, "", "mcpscope: cannot " + verb + ": stat " + missing + ": no such file or directory\n"},
			append(args, missing)...)
		u.wantsSaid(said{cli.ExitFailure, "", "mcpscope: cannot " + verb + ": Kiro has no configuration here\n"}, append(args, "kiro")...)
	}
	u.wantsSaid(said{cli.ExitFailure, "", "mcpscope: cannot find configurations: Kiro has no configuration here\n"}, "wrap", "--list", "kiro")
}

// The name of a server in the selected files is no argument, and the flag for it is printed.
func TestNamesOfServersAsArguments(t *testing.T) {
	u := newUser(t)
	u.write(filepath.Join(u.home, ".codex/config.toml"), "[mcp_servers.'@scope/git']\ncommand = 'uvx'\n")
	text := func(verb, name, word string) string {
		return "mcpscope: cannot " + verb + ": there is no client and no file \"" + name + "\", but a server\nmcpscope: hint: --server " + word + "\n"
	}
	for _, c := range []struct {
		args       []string
		name, word string
	}{
		{[]string{"time"}, "time", "time"}, {[]string{"cursor", "time"}, "time", "time"}, {[]string{"time", "cursor"}, "time", "time"},
		{[]string{"@scope/git"}, "@scope/git", "@scope/git"}, {[]string{"@scope/git", "time"}, "@scope/git", "@scope/git"},
	} {
		u.wantsSaid(said{cli.ExitFailure, "", text("wrap", c.name, c.word)}, append([]string{"wrap", "--program", u.program, "--yes"}, c.args...)...)
		u.wantsSaid(said{cli.ExitFailure, "", text("unwrap", c.name, c.word)}, append([]string{"unwrap"}, c.args...)...)
	}
	u.wantsSaid(said{cli.ExitFailure, "", text("find configurations", "time", "time")}, "wrap", "--list", "time")
	u.wants(1, []string{`there is no client and no file "time"; clients are claude-code, `}, "unwrap", "codex", "time")
	u.wants(1, []string{"none/git: no such file or directory"}, "unwrap", "none/git")
	u.wantsFile(cursor)
}

// Without a terminal and without --yes, nothing changes.
func TestNotConfirmed(t *testing.T) {
	u := newUser(t)
	title := u.config + " (Cursor)\n  time:\n"
	bare := "uvx (1 argument)\n"
	ours := u.program + " run --name time -- " + bare
	u.wantsSaid(said{cli.ExitFailure, title + "  - " + bare + "  + " + ours, "mcpscope: cannot wrap: not confirmed\nmcpscope: hint: --yes\n"},
		"wrap", "--program", u.program)
	u.wantsFile(cursor)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	u.wantsSaid(said{cli.ExitFailure, title + "  - " + ours + "  + " + bare, "mcpscope: cannot unwrap: not confirmed\nmcpscope: hint: --yes\n"}, "unwrap")
	u.wantsFile(wrapped(u.program, ""))
}

// A file stays as it is if there is no place for its backup.
func TestWrapWithoutAPlaceForBackups(t *testing.T) {
	u := newUser(t)
	u.write(filepath.Join(u.home, "state"), "no directory")
	t.Setenv("XDG_STATE_HOME", filepath.Join(u.home, "state"))
	u.wants(1, []string{"cannot change " + u.config + ": back it up as " + u.home + "/state/", "not a directory"},
		"wrap", "--program", u.program, "--yes")
	u.wantsFile(cursor)
}

// A home without configurations is no failure.
func TestNoConfiguration(t *testing.T) {
	u := newUser(t)
	if err := os.RemoveAll(filepath.Dir(u.config)); err != nil {
		t.Fatal(err)
	}
	const none = "no client configuration found in the home or working directory, or above it\n"
	u.wantsSaid(said{cli.ExitOK, none + "nothing to unwrap\n", ""}, "unwrap")
	u.wantsSaid(said{cli.ExitOK, none + "nothing to wrap\n", ""}, "wrap", "--program", u.program, "--check")
	u.wantsSaid(said{cli.ExitOK, "", ""}, "wrap", "--list")
}

// A server that a person has named, and that cannot be changed, is a failure. So is one that stays wrapped.
func TestServersThatCannotBeChanged(t *testing.T) {
	u := newUser(t)
	u.config = filepath.Join(u.home, "config.yaml")
	const reason = "its YAML has an anchor or a text of several lines"
	u.write(u.config, "mcpServers:\n  t: &t\n    command: uvx\n    args: [x]\n")
	lines := []string{"  t: not editable: " + reason, `      command: "` + u.program + `"`, `      args: ["run", "--name", "t", "--", "uvx", …the argument that is there now]`}
	u.wants(0, append(lines, "nothing to wrap"), "wrap", "--program", u.program, u.config)
	u.wants(1, append(lines, `cannot wrap "t" in `+u.config+": "+reason), "wrap", "--program", u.program, u.config, "--server", "t")
	u.wants(1, []string{`cannot wrap "t" in ` + u.config + ": " + reason}, "wrap", "--program", u.program, u.config, "--server", "t", "--dry-run")
	u.write(u.config, "mcpServers:\n  t: &t\n    command: "+u.program+"\n    args: [run, --, uvx, x]\n")
	u.wants(1, []string{"  t: wrapped: by hand, since " + reason, `      command: "uvx"`, `      args: […the argument that is there now]`,
		`cannot unwrap "t" in ` + u.config + ": " + reason}, "unwrap", u.config)
}

// A file that its owner can make writable has bare servers until then, whether it was named or not.
func TestWrapOfAFileThatIsReadOnly(t *testing.T) {
	u := newUser(t)
	u.write(filepath.Join(u.home, ".codex/config.toml"), "[mcp_servers.git]\ncommand = 'uvx'\n")
	if err := os.Chmod(u.config, 0o444); err != nil {
		t.Fatal(err)
	}
	hint := "mcpscope: hint: chmod u+w " + u.config + "\n"
	note := "mcpscope: note: servers in " + u.config + " stay without mcpscope: it is read-only\n"
	u.wants(1, []string{note + hint}, "wrap", "--program", u.program, "--check")
	u.wants(0, []string{note + hint, "Wrapped 1 server in "}, "wrap", "--program", u.program, "--yes")
	u.wants(1, []string{"cannot wrap " + u.config + ": it is read-only\n" + hint}, "wrap", "--program", u.program, "--yes", "cursor")
	if got, want := say("unwrap", "--yes").err, ""; got != want {
		t.Errorf("unwrap: %q", got)
	}
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	want := []string{"1 server is configured without mcpscope, where wrap cannot edit the command: time (cursor): " +
		"chmod u+w " + u.config + ", then mcpscope wrap"}
	if got := uncovered(proc.Take(), clientconfig.NewSearch(), false); !slices.Equal(got, want) {
		t.Errorf("ls notes %q, want %q", got, want)
	}
}

// The processes of an existing container are not in the group of the server.
func TestWrapOfAServerInAContainer(t *testing.T) {
	u := newUser(t)
	u.write(u.config, `{"mcpServers": {"time": {"command": "docker", "args": ["exec", "-i", "web", "server"]}}}`)
	u.wants(1, []string{"  warning: the server runs in an existing container; its left-over processes there stay\n"},
		"wrap", "--program", u.program, "--check")
}

// Servers without mcpscope have memory until their clients restart. Freezing is of no use without swap.
func TestBareText(t *testing.T) {
	const bare = "Servers still run without mcpscope (64M), until their clients restart.\n"
	for _, c := range []struct {
		memory           uint64
		idleFreeze, swap string
		want             string
	}{
		{0, "", "zram", ""},
		{64 << 20, "", "", bare},
		{64 << 20, "10m", "zram", bare},
		{64 << 20, "", "zram", bare + "To freeze idle servers, which frees memory: mcpscope wrap --idle-freeze 10m\n"},
	} {
		f := wrapFlags{idleFreeze: c.idleFreeze}
		if got := f.bareText(c.memory, c.swap); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestNoteSwap(t *testing.T) {
	note := "mcpscope: note: this host has no swap, so a frozen server keeps its memory\n" +
		"mcpscope: hint: " + host.AddSwap + "\n"
	for _, c := range []struct{ idleFreeze, swap, want string }{
		{"", "", ""}, {"infinity", "", ""}, {"0", "", ""}, {"10m", "disk", ""}, {"10m", "", note},
	} {
		var err bytes.Buffer
		f := wrapFlags{idleFreeze: c.idleFreeze}
		f.noteSwap(cli.Stdio{Err: &err}, c.swap)
		if err.String() != c.want {
			t.Errorf("%+v: %q", c, err.String())
		}
	}
}

// The reason of a server is a sentence with the next step, if there is one.
func TestReasonText(t *testing.T) {
	argv := []string{"/x/mcpscope", "run"}
	const fixed = "its YAML has an anchor or a text of several lines"
	for _, c := range []struct {
		server wrapping.Server
		want   string
	}{
		{wrapping.Server{State: wrapping.Bare}, "bare"},
		{wrapping.Server{State: wrapping.Bare, Reason: "tracked\x1b"}, "bare: tracked?"},
		{wrapping.Server{State: wrapping.Wrapped, Argv: argv}, "wrapped"},
		{wrapping.Server{State: wrapping.Wrapped, Argv: argv, Reason: fixed}, "wrapped: by hand, since " + fixed},
		{wrapping.Server{State: wrapping.Broken, Argv: argv}, "broken: /x/mcpscope is not there; mcpscope wrap repairs it"},
		{wrapping.Server{State: wrapping.Broken, Argv: argv, Reason: "it is read-only"}, "broken: /x/mcpscope is not there, and it is read-only"},
		{wrapping.Server{State: wrapping.Broken, Argv: argv, Mistake: "--nope"}, "broken: mcpscope run would refuse --nope: edit the file"},
		{wrapping.Server{State: wrapping.NotEditable, Reason: "it is remote"}, "not editable: it is remote"},
	} {
		if got := stateText(c.server); got != c.want {
			t.Errorf("%+v: %q, want %q", c.server, got, c.want)
		}
	}
}

// The list has no argument and no variable of a server, in JSON neither. A broken server is a failure.
func TestWrapList(t *testing.T) {
	u := newUser(t)
	u.wantsSaid(said{cli.ExitOK, "CLIENT  SERVER  STATE  COMMAND  ARGS  FLAGS  FILE\n" +
		"cursor  time    bare   uvx      1     -      " + u.config + "\n", ""}, "wrap", "--list")
	u.wantsSaid(said{cli.ExitOK, "", ""}, "wrap", "--list", "--server", "clock")
	u.wantsSaid(said{cli.ExitOK, `{
  "version": 1,
  "servers": [
    {
      "client": "cursor",
      "file": "` + u.config + `",
      "name": "time",
      "state": "bare",
      "command": "uvx",
      "arguments": 1
    }
  ]
}
`, ""}, "wrap", "--list", "--json")
	u.wantsSaid(said{cli.ExitOK, "{\n  \"version\": 1,\n  \"servers\": []\n}\n", ""}, "wrap", "--list", "--json", "--server", "clock")
	u.write(u.config, wrapped("/no/such/mcpscope", ""))
	u.wants(1, []string{`"state": "broken"`, `"reason": "/no/such/mcpscope is not there; mcpscope wrap repairs it"`}, "wrap", "--list", "--json")
	u.write(u.config, "{")
	u.wantsSaid(said{cli.ExitOK, "", "mcpscope: note: cannot read " + u.config + ": line 1, column 1: not valid JSON: this { is never closed\n"}, "wrap", "--list")
}

// The flags of wrapped servers are in the list, without the names that wrap gives.
func TestWrapListHasFlags(t *testing.T) {
	u := newUser(t)
	u.write(u.config, wrapped(u.program, ""))
	u.wantsSaid(said{cli.ExitOK, "CLIENT  SERVER  STATE    COMMAND  ARGS  FLAGS  FILE\n" +
		"cursor  time    wrapped  uvx      1     -      " + u.config + "\n", ""}, "wrap", "--list")
	u.write(u.config, strings.Replace(wrapped(u.program, `"--idle-freeze", "10m", `), `"--name", "time"`, `"--name", "my time"`, 1))
	u.wantsSaid(said{cli.ExitOK, "CLIENT  SERVER  STATE    COMMAND  ARGS  FLAGS                               FILE\n" +
		"cursor  time    wrapped  uvx      1     --idle-freeze 10m --name \"my time\"  " + u.config + "\n", ""}, "wrap", "--list")
	u.wants(0, []string{`"arguments": 1,
      "flags": [
        "--idle-freeze",
        "10m",
        "--name",
        "my time"
      ]
`}, "wrap", "--list", "--json")
}

// A server that was added later does not get the flag of the others, and wrap has the command for it.
func TestWrapOfAServerWithoutTheFlagOfTheOthers(t *testing.T) {
	u := newUser(t)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes", "--idle-freeze", "10m")
	u.write(u.config, strings.Replace(wrapped(u.program, `"--idle-freeze", "10m", `), "}}}}", `}}, "late one": {"command": "x"}}}`, 1))
	missing := "mcpscope: note: in " + u.config + ", late one does not get --idle-freeze, which all wrapped servers have\n" +
		"mcpscope: hint: mcpscope wrap --idle-freeze 10m --server 'late one' cursor\n"
	for _, how := range []string{"--check", "--dry-run", "--yes"} {
		if s := say("wrap", "--program", u.program, how); !strings.Contains(s.err, missing) {
			t.Errorf("%s: %+v", how, s)
		}
	}
	u.wantsSaid(said{cli.ExitOK, u.config + " (Cursor)\n  time: wrapped\n  late one: wrapped\nnothing to wrap\n", ""}, "wrap", "--program", u.program, "--yes")
	u.wants(0, []string{"Changed 1 server"}, "wrap", "--program", u.program, "--idle-freeze", "10m", "--server", "late one", "cursor", "--yes")
}

// The words before a command are those of a shell, and a name from the file cannot control the terminal.
func TestCommandLine(t *testing.T) {
	words := []string{"/usr/bin/mcpscope", "run", "--name", "my server", "", `a"b`, "c\x1b[31m"}
	const want = `/usr/bin/mcpscope run --name "my server" "" "a\"b" c?[31m `
	if got := commandLine(words); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
