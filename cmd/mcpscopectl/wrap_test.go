// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

// homeUser is a home with a configuration of Cursor, and a directory with an mcpscope.
type homeUser struct {
	*testing.T
	home, config, program string
}

const cursor = `{"mcpServers": {"time": {"command": "uvx", "args": ["some-server"], "env": {"KEY": "hunter2"}}}}`

func newUser(t *testing.T) *homeUser {
	t.Helper()
	home := t.TempDir()
	u := &homeUser{t, home, filepath.Join(home, ".cursor/mcp.json"), filepath.Join(home, "bin/mcpscope")}
	for _, variable := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "SUDO_UID"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", home)
	t.Chdir(home)
	u.write(u.config, cursor)
	u.write(u.program, "#!/bin/sh\n")
	return u
}

func (u *homeUser) write(path, text string) {
	u.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		u.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		u.Fatal(err)
	}
}

// wants runs a command, and compares its status and parts of its output.
func (u *homeUser) wants(status int, parts []string, command ...string) {
	u.Helper()
	var out, failed bytes.Buffer
	got := run(command, cli.Stdio{Out: &out, Err: &failed})
	text := out.String() + failed.String()
	if got != status {
		u.Errorf("%q: status %d, want %d\n%s", command, got, status, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			u.Errorf("%q does not print %q:\n%s", command, part, text)
		}
	}
	if strings.Contains(text, "hunter2") {
		u.Errorf("%q prints a secret", command)
	}
}

func (u *homeUser) wantsFile(want string) {
	u.Helper()
	got, err := os.ReadFile(u.config)
	if err != nil || string(got) != want {
		u.Errorf("%s, %v\nwant\n%s", got, err, want)
	}
}

// masked is a configuration as --dry-run shows it.
func masked(config string) string {
	return strings.NewReplacer(`"some-server"`, `"…"`, `"hunter2"`, `"…"`).Replace(config)
}

// wrapped is the configuration with that prefix.
func wrapped(program, flags string) string {
	return strings.Replace(cursor, `"uvx", "args": [`, `"`+program+`", "args": ["run", `+flags+`"--name", "time", "--", "uvx", `, 1)
}

func TestWrapAgainWithAFlag(t *testing.T) {
	u := newUser(t)
	u.wants(0, []string{"Wrapped 1 server"}, "wrap", "--program", u.program, "--yes")
	u.wants(0, []string{"nothing to wrap"}, "wrap", "--program", u.program, "--yes")
	u.wants(0, []string{"Changed 1 server in " + u.config, "--idle-freeze 10m --name time -- uvx (1 argument)"},
		"wrap", "--program", u.program, "--yes", "--idle-freeze", "10m")
	u.wantsFile(wrapped(u.program, `"--idle-freeze", "10m", `))
	u.wants(2, []string{"--idle-freeze: "}, "wrap", "--program", u.program, "--idle-freeze", "soon")
	u.wants(0, []string{"Unwrapped 1 server"}, "unwrap", "--yes")
	u.wantsFile(cursor)
}

func TestWrapRepairsWhatIsBroken(t *testing.T) {
	u := newUser(t)
	old := filepath.Join(u.home, "old/mcpscope")
	u.write(old, "#!/bin/sh\n")
	u.wants(0, nil, "wrap", "--program", old, "--yes")
	u.wants(0, []string{"wrapped"}, "wrap", "--list")
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	u.wants(1, []string{"broken: " + old + " is not there; mcpscope wrap repairs it"}, "wrap", "--list")
	u.wants(1, []string{"would change 1 file"}, "wrap", "--program", u.program, "--check")
	u.wants(1, []string{"+"}, "wrap", "--program", u.program, "--check", "--dry-run")
	u.wants(0, []string{"Repaired 1 server in "}, "wrap", "--program", u.program, "--yes")
	u.wantsFile(wrapped(u.program, ""))
}

// A program in the source code is not installed, and the path of it is in the files of clients.
func TestWrapWithAProgramThatIsNotInstalled(t *testing.T) {
	u := newUser(t)
	source := filepath.Join(u.home, "src")
	u.write(filepath.Join(source, "go.mod"), "module github.com/mcpscope/mcpscope\n")
	built := filepath.Join(source, "bin/mcpscope")
	u.write(built, "#!/bin/sh\n")
	note := "mcpscope: note: " + built + " is not installed: the wrapped servers start only as long as " + source + " is there\n" +
		"mcpscope: hint: sudo make -C " + source + " install, then mcpscope wrap --program /usr/local/bin/mcpscope\n"
	u.wants(1, []string{note}, "wrap", "--program", built)
	u.wants(0, []string{note, "Wrapped 1 server"}, "wrap", "--program", built, "--yes")
	u.wantsSaid(said{cli.ExitOK, u.config + " (Cursor)\n  time: wrapped\nnothing to wrap\n", ""}, "wrap", "--program", built, "--yes")
	u.wantsSaid(said{cli.ExitOK, "CLIENT  SERVER  STATE    COMMAND  ARGS  FLAGS  FILE\n" +
		"cursor  time    wrapped  uvx      1     -      " + u.config + "\n", ""}, "wrap", "--list")
	codex := filepath.Join(u.home, ".codex/config.toml")
	u.write(codex, "[mcp_servers.git]\ncommand = '"+u.program+"'\nargs = ['run', '--', 'uvx']\n")
	u.wants(0, []string{"time    wrapped: by " + built + " ", "git     wrapped: by " + u.program + " "}, "wrap", "--list")
	u.wants(0, []string{`"program": "` + built + `"`, `"program": "` + u.program + `"`}, "wrap", "--list", "--json")
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	u.wants(0, []string{"time    wrapped  ", "git     wrapped  "}, "wrap", "--list")
}

// The last line counts new, broken and other servers apart.
func TestWrapCountsBySort(t *testing.T) {
	u := newUser(t)
	u.write(u.config, `{"mcpServers": {
  "new": {"command": "uvx"}, "newer": {"command": "uvx"},
  "old": {"command": "`+u.program+`", "args": ["run", "--", "uvx"]},
  "gone": {"command": "/no/such/mcpscope", "args": ["run", "--", "uvx"]}
}}`)
	u.wants(0, []string{"Wrapped 2 servers, repaired 1 server, changed 1 server in " + u.config + " (backup: "},
		"wrap", "--program", u.program, "--yes", "--idle-freeze", "10m")
}

func TestUnwrapWithoutABackup(t *testing.T) {
	u := newUser(t)
	u.write(u.config, wrapped(u.program, ""))
	u.wants(0, []string{"Unwrapped 1 server"}, "unwrap", "--yes")
	u.wantsFile(cursor)
	if _, err := os.Stat(filepath.Join(u.home, ".local")); err == nil {
		t.Error("there is a backup")
	}
}

func TestCheckAndDryRunChangeNothing(t *testing.T) {
	u := newUser(t)
	u.wants(1, []string{"+ " + u.program + " run --name time -- uvx (1 argument)"}, "wrap", "--program", u.program, "--check")
	const note = "mcpscope: note: the diff has … in place of values and comments, which can be secrets; the files keep them\n"
	u.wants(0, []string{note, "\n-" + masked(cursor), "\n+" + masked(wrapped(u.program, ""))}, "wrap", "--program", u.program, "--dry-run")
	u.wantsFile(cursor)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	u.wants(0, []string{"nothing to wrap"}, "wrap", "--program", u.program, "--check")
	short := []string{"an idle-freeze below 2m0s can freeze a server during a call"}
	u.wants(1, short, "wrap", "--program", u.program, "--check", "--idle-freeze", "2s")
	u.wantsSaid(said{cli.ExitOK, u.config + " (Cursor)\n  time: wrapped\nnothing to wrap\n", ""}, "wrap", "--program", u.program, "--dry-run")
	u.wants(0, []string{note, "\n+" + masked(cursor)}, "unwrap", "--dry-run")
	u.wantsFile(wrapped(u.program, ""))
}

// Beside the diff, --dry-run prints why servers stay as they are, and the warnings.
func TestDryRunHasTheReasons(t *testing.T) {
	u := newUser(t)
	u.write(u.config, `{"mcpServers": {
  "remote": {"url": "https://example.com/mcp?key=hunter2"},
  "web": {"command": "docker", "args": ["exec", "-i", "web", "server"]},
  "line": {"command": "KEY=hunter2 npx"},
  "time": {"command": "uvx"}
}}`)
	const reasons = "  remote: not editable: it is remote\n  web:\n" +
		"  warning: the server runs in an existing container; its left-over processes there stay\n" +
		"  line: not editable: its command is a whole line; put the arguments into args\n"
	u.wants(0, []string{u.config + " (Cursor)\n" + reasons + "diff ", `+  "time": {"command": "` + u.program},
		"wrap", "--program", u.program, "--dry-run")
}

func TestNamesAndFilesThatAreWrong(t *testing.T) {
	u := newUser(t)
	u.wants(1, []string{`there is no client "claude"; did you mean claude-code or claude-desktop?`}, "wrap", "--program", u.program, "claude")
	u.wants(1, []string{`did you mean vscode?`}, "wrap", "--program", u.program, "VS-Code")
	other := filepath.Join(u.home, "settings.json")
	u.write(other, `{"theme": "dark"}`)
	u.wants(0, []string{other + ": no servers", "nothing to wrap"}, "wrap", "--program", u.program, other)
	u.write(other, strings.Repeat(" ", 64<<20)+`{"mcpServers": {}}`)
	u.wants(1, []string{other, "it is larger than 64 MiB", "nothing to wrap, because " + other + " cannot be read\n"}, "wrap", "--program", u.program, other)
	u.wants(1, []string{"is not called mcpscope"}, "wrap", "--program", "/bin/sh")
}

func TestAnUnreadableBackupIsANote(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		u := newUser(t)
		u.wants(0, nil, "wrap", "--program", u.program, "--yes")
		below := filepath.Join(u.home, ".local/state/mcpscope/backups", u.home)
		if err := os.Chmod(below, 0); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Chmod(below, 0o700) }() // else it cannot be removed
		const note = "note: cannot read the backup "
		u.wants(0, []string{note, "wrapped"}, "wrap", "--list")
		u.wants(0, []string{note, "Unwrapped 1 server"}, "unwrap", "--yes")
		u.wantsFile(cursor)
	})
}

// Without HOME the home is that of the password database, so a configuration of this user is found or none is:
// the command does not fail.
func TestListWithoutHome(t *testing.T) {
	u := newUser(t)
	t.Setenv("HOME", "")
	u.wants(0, []string{"["}, "wrap", "--list", "--json", u.config)
}

// A flag that mcpscope run refuses makes a server that can never start.
func TestAMistakeInAFlag(t *testing.T) {
	u := newUser(t)
	u.write(u.config, wrapped(u.program, `"--memory-max", "1 GB", `))
	u.wants(1, []string{`broken: mcpscope run would refuse --memory-max "1 GB"`}, "wrap", "--list")
	const unrepaired = `mcpscope: cannot repair "time" in `
	u.wants(1, []string{unrepaired + u.config + `: mcpscope run would refuse --memory-max "1 GB"`}, "wrap", "--program", u.program, "--yes")
	u.wants(1, []string{"nothing to wrap"}, "wrap", "--program", u.program, "--check")
	u.wants(0, []string{"Unwrapped 1 server"}, "unwrap", "--yes")
	u.wantsFile(cursor)
	u.wants(2, []string{"--list and --check exclude each other"}, "wrap", "--list", "--check")
	u.wants(2, []string{"--program"}, "wrap", "--list", "--program", "/x")
	u.wants(2, []string{"--idle-freeze"}, "wrap", "--list", "--idle-freeze", "10m")
	u.wants(2, []string{"so it has no --dry-run"}, "wrap", "--list", "--dry-run")
	u.wants(2, []string{"so it has no --yes"}, "wrap", "--list", "--yes")
}

// A wrapped file is found again without the section that named its client, and one that is broken now is reported.
func TestUnwrapFindsWhatNoClientHas(t *testing.T) {
	u := newUser(t)
	settings := filepath.Join(u.home, ".config/mcpscope/mcpscope.toml")
	own := filepath.Join(u.home, ".mytool/mcp.json")
	u.write(settings, "[client.mytool]\npath = '~/.mytool/mcp.json'\nservers = ['tools', 'mcp']\n")
	if err := os.Chmod(settings, 0o600); err != nil {
		t.Fatal(err)
	}
	u.write(own, `{"tools": {"mcp": {"mine": {"command": "uvx"}}}}`)
	u.wants(0, []string{"Wrapped 1 server"}, "wrap", "--program", u.program, "mytool", "--yes")
	if err := os.Remove(settings); err != nil {
		t.Fatal(err)
	}
	u.wants(1, []string{"cannot read " + own + ", which was wrapped: it starts mcpscope where no known client has its servers", "restore "}, "unwrap", "--yes")
	u.write(u.config, cursor)
	u.wants(0, nil, "wrap", "--program", u.program, "cursor", "--yes")
	u.write(u.config, wrapped(u.program, "")+"}")
}
