// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func (u *homeUser) backup() string {
	return filepath.Join(u.home, ".local/state/mcpscope/backups", u.config)
}

func (u *homeUser) wantsBackup(want bool) {
	u.Helper()
	if _, err := os.Stat(u.backup()); (err == nil) != want {
		u.Errorf("there is a backup: %v, want %v", err == nil, want)
	}
}

// edited has changes in two places, so that only the prefix can be removed.
func edited(text string) string {
	return strings.Replace(strings.Replace(text, `{"time": {`, `{"time": {"a": 1, `, 1), `"hunter2"`, `"hunter2", "B": "c"`, 1)
}

// A backup that is kept has the keys of the user, so its path is printed.
func TestUnwrapReportsTheBackupThatItKeeps(t *testing.T) {
	u := newUser(t)
	u.wants(0, []string{"(backup: " + u.backup() + ")"}, "wrap", "--program", u.program, "--yes")
	u.write(u.config, edited(wrapped(u.program, "")))
	u.wants(0, []string{"(kept its backup, which may contain keys, because the file has changed since: rm " + u.backup() + ")"}, "unwrap", "--yes")
	u.wantsFile(edited(cursor))
	u.wantsBackup(true)
	u.wants(0, []string{u.config + ": nothing in it is wrapped, and its backup, which may contain keys, has other servers or comments: rm " + u.backup()}, "unwrap", "--yes")
	u.wantsBackup(true)
	if err := os.Remove(u.config); err != nil {
		t.Fatal(err)
	}
	u.wants(0, []string{u.config + ": it was removed, and its backup, which may contain keys, is there: rm " + u.backup()}, "unwrap", "--yes")
	u.wantsBackup(true)
}

// Claude Code writes its file anew at each start. That is no reason to keep a copy of all keys.
func TestUnwrapAfterTheClientHasWrittenItsFileAnew(t *testing.T) {
	u := newUser(t)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	anew := func(text string) string { // and somebody has added a server
		text = strings.Replace(text, `"mcpServers": {`, `"mcpServers": {"later": {"command": "later-mcp"}, `, 1)
		return "{\n\"numStartups\": 4,\n" + strings.TrimSuffix(text[1:], "}") + ",\n\"tips\": {}\n}\n"
	}
	u.write(u.config, anew(wrapped(u.program, "")))
	u.wants(0, []string{"Unwrapped 1 server in " + u.config + ". Restart"}, "unwrap", "--yes")
	u.wantsFile(anew(cursor))
	u.wantsBackup(false)
	if got := say("unwrap", "--yes"); strings.Contains(got.out, "backup") {
		t.Errorf("%+v", got)
	}
}

// A path with a blank is one word in a command that a person can paste, and in the changes.
func TestPathsWithBlanks(t *testing.T) {
	u := newUser(t)
	u.config = filepath.Join(u.home, "a client's/mcp.json")
	server := filepath.Join(u.home, "my server")
	u.write(u.config, `{"mcpServers": {"time": {"command": "`+server+`"}}}`)
	u.write(server, "")
	u.wants(0, []string{`- "` + server + `" (0 arguments)`, `-- "` + server + `" (0 arguments)`},
		"wrap", "--program", u.program, "--yes", u.config)
	if err := os.Remove(u.config); err != nil {
		t.Fatal(err)
	}
	quoted := strings.ReplaceAll(u.backup(), "'", `'\''`)
	u.wants(0, []string{"its backup, which may contain keys, is there: rm '" + quoted + "'\n"}, "unwrap", "--yes")
}

// While a server is wrapped, its backup is needed.
func TestUnwrapOfOneServerKeepsTheBackup(t *testing.T) {
	u := newUser(t)
	u.write(u.config, `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	u.wants(0, []string{"(backup: " + u.backup() + ")"}, "unwrap", "--yes", "--server", "a")
}

// A backup that equals its file is of no use. The user has restored the file by other means.
func TestUnwrapRemovesABackupThatEqualsTheFile(t *testing.T) {
	u := newUser(t)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	u.write(u.config, cursor)
	u.wants(0, nil, "unwrap", "--dry-run")
	u.wantsBackup(true)
	u.wants(0, []string{"nothing to unwrap", "removed its backup"}, "unwrap", "--yes")
	u.wantsBackup(false)
	u.wantsFile(cursor)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	u.write(u.config, cursor)
	u.wants(0, []string{"removed its backup"}, "unwrap", "cursor", "--yes")
	u.wantsBackup(false)
}

// unwrap removes the prefix that a person has written by hand too, and restores the rest to the byte.
func TestUnwrapBesideAServerThatWasWrappedByHand(t *testing.T) {
	u := newUser(t)
	hand := `{"mcpServers": {"hand": {"command": "` + u.program + `", "args": ["run", "--", "uvx", "x"]}, "noargs": {"command": "srv"}}}`
	u.write(u.config, hand)
	u.wants(0, []string{"Wrapped 1 server"}, "wrap", "--program", u.program, "--yes")
	u.wants(0, []string{"Unwrapped 1 server"}, "unwrap", "--yes", "--server", "noargs")
	u.wantsFile(hand)
	u.wantsBackup(false)
	u.wants(0, []string{"Wrapped 1 server, changed 1 server in "}, "wrap", "--program", u.program, "--yes", "--idle-freeze", "10m")
	u.wants(0, []string{"Unwrapped 2 servers"}, "unwrap", "--yes")
	u.wantsFile(`{"mcpServers": {"hand": {"command": "uvx", "args": ["x"]}, "noargs": {"command": "srv"}}}`)
	u.wantsBackup(false)
}

// A backup that cannot be removed may have keys: it is named, and not reported as removed.
func TestUnwrapCannotRemoveABackup(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		u := newUser(t)
		u.wants(0, nil, "wrap", "--program", u.program, "--yes")
		dir := filepath.Dir(u.backup())
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // for the removal of the home
		stays := "mcpscope: note: cannot remove the backup " + u.backup() + ": permission denied\n" +
			"mcpscope: hint: it may contain keys: sudo rm " + u.backup() + "\n"
		u.wants(0, []string{"Unwrapped 1 server in " + u.config, stays}, "unwrap", "--yes")
		u.wantsFile(cursor)
		u.wants(0, []string{"nothing to unwrap", stays}, "unwrap", "--yes")
		u.wantsBackup(true)
	})
}

// A change that is no text of its format is not shown as one.
func TestChangeThatCannotBePrinted(t *testing.T) {
	u := newUser(t)
	found, err := clientconfig.Find([]string{u.config})
	if err != nil || len(found.Files) != 1 {
		t.Fatal(found, err)
	}
	got := printed(func(stdio cli.Stdio) int {
		r := rewriting{stdio: stdio, verb: "wrap"}
		return r.printDiffs([]clientconfig.Change{{File: found.Files[0], Change: &wrapping.Change{Data: []byte("{")}}})
	})
	const want = "mcpscope: cannot print the change of "
	if got.status != cli.ExitFailure || got.out != "" || !strings.Contains(got.err, want+u.config+": line 1, column 1: not valid JSON") {
		t.Errorf("%+v", got)
	}
}
