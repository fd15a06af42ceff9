// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

// withoutRights takes all rights of a file or directory until the test has finished. Root would keep them.
func (u *homeUser) withoutRights(path string) (giveBack func()) {
	u.Helper()
	info, err := os.Stat(path)
	if err != nil {
		u.Fatal(err)
	}
	if err := os.Chmod(path, 0); err != nil {
		u.Fatal(err)
	}
	giveBack = func() { _ = os.Chmod(path, info.Mode()) } // otherwise the home cannot be removed
	u.Cleanup(giveBack)
	return giveBack
}

// A wrapped file that cannot be read needs mcpscope, so nothing reports success without it.
func TestAWrappedFileThatCannotBeRead(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		for _, lost := range []string{".cursor/mcp.json", ".cursor"} {
			t.Run(lost, func(t *testing.T) {
				u := newUser(t)
				u.wants(0, nil, "wrap", "--program", u.program, "--yes")
				giveBack := u.withoutRights(filepath.Join(u.home, lost))
				want := []string{"cannot read " + u.config + ", which was wrapped: permission denied"}
				u.wants(1, want, "unwrap", "--yes")
				u.wants(1, want, "wrap", "--list")
				u.wants(1, append(want, "nothing to wrap, because "+u.config+" cannot be read\n"), "wrap", "--program", u.program, "--check")
				giveBack()
				u.wants(0, []string{"Unwrapped 1 server"}, "unwrap", "--yes")
				u.wantsFile(cursor)
			})
		}
	}, programs.Runner)
}

// The dotfiles of a user can be moved: the link that a client reads has no target then.
func TestAWrappedFileBehindALinkThatDangles(t *testing.T) {
	u := newUser(t)
	dotfiles := filepath.Join(u.home, "dotfiles")
	u.write(filepath.Join(dotfiles, "mcp.json"), cursor)
	if err := os.Remove(u.config); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../dotfiles/mcp.json", u.config); err != nil {
		t.Fatal(err)
	}
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	if err := os.Rename(dotfiles, dotfiles+".old"); err != nil {
		t.Fatal(err)
	}
	want := []string{"cannot read " + u.config + " -> " + dotfiles + "/mcp.json, which was wrapped: no such file"}
	u.wants(1, want, "wrap", "--list")
	u.wants(1, want, "unwrap", "--yes")
	u.wants(1, want, "unwrap", "--yes", "cursor")
	if err := os.Rename(dotfiles+".old", dotfiles); err != nil {
		t.Fatal(err)
	}
	u.wants(0, []string{"Unwrapped 1 server"}, "unwrap", "--yes")
	u.wantsFile(cursor)
}

// A file that was never wrapped can be broken, and belong to another user. No command fails for it, unless a person
// has named it.
func TestAFileThatWasNeverWrappedAndCannotBeRead(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		u := newUser(t)
		broken := filepath.Join(u.home, ".codeium/windsurf/mcp_config.json")
		u.write(broken, `{"mcpServers": `)
		foreign := filepath.Join(u.home, ".lmstudio/mcp.json")
		u.write(foreign, cursor)
		u.withoutRights(foreign)
		notes := "mcpscope: note: cannot read " + broken + ": line 1, column 1: not valid JSON: this { is never closed\n" +
			"mcpscope: note: cannot read " + foreign + ": permission denied"
		wraps := []string{"wrap", "--program", u.program}
		u.wants(0, []string{notes + "\n"}, "wrap", "--list")
		u.wants(0, []string{notes + "\n"}, append(wraps, "--dry-run")...)
		u.wants(0, []string{notes + "\n", "Wrapped 1 server"}, append(wraps, "--yes")...)
		u.wantsSaid(said{cli.ExitOK, u.config + " (Cursor)\n  time: wrapped\nnothing to wrap in " + u.config + "\n", notes + "\n"},
			append(wraps, "--yes")...)
		const stays = "; any wrapped server there stays wrapped\n"
		u.wants(0, []string{notes + stays, "Unwrapped 1 server in " + u.config}, "unwrap", "--yes")
		u.wantsSaid(said{cli.ExitOK, u.config + " (Cursor)\n  time: bare\nnothing to unwrap in " + u.config + "\n", notes + stays},
			"unwrap", "--yes")
		for _, name := range []string{"windsurf", broken} {
			u.wants(1, []string{"mcpscope: cannot read " + broken, "nothing to wrap, because " + broken + " cannot be read\n"},
				append(wraps, "--yes", name)...)
		}
		u.wants(1, []string{"nothing to wrap, because no file can be read\n"}, append(wraps, "--yes", "windsurf", "lmstudio")...)
		u.write(filepath.Join(u.home, ".kiro/settings/mcp.json"), `{"mcpServers": {}}`)
		u.wants(0, []string{"nothing to unwrap in the files that can be read\n"}, "unwrap", "--yes")
	}, programs.Runner)
}

// The text of a malformed file without a backup can say that its servers need mcpscope.
func TestAFileThatNamesMcpscopeAndCannotBeRead(t *testing.T) {
	u := newUser(t)
	u.write(u.config, wrapped(u.program, "")+"}")
	const hint = "mcpscope: hint: repair it, and run mcpscope unwrap\n"
	u.wants(1, []string{"cannot read " + u.config + ", which names mcpscope: line 1, ", hint}, "unwrap", "--yes")
	u.wants(1, []string{"cannot read " + u.config + ", which names mcpscope: line 1, ", hint}, "wrap", "--list")
}

// A link that dangles is no file, unless it was wrapped.
func TestALinkThatDanglesAndWasNeverWrapped(t *testing.T) {
	u := newUser(t)
	if err := os.Remove(u.config); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../dotfiles/mcp.json", u.config); err != nil {
		t.Fatal(err)
	}
	u.wants(0, []string{"no client configuration"}, "unwrap")
}

// A directory of a client that cannot be searched is named: it can have a configuration.
func TestADirectoryThatCannotBeSearched(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		u := newUser(t)
		u.withoutRights(filepath.Join(u.home, ".cursor"))
		want := []string{"cannot search " + filepath.Join(u.home, ".cursor") + ": permission denied"}
		u.wants(0, want, "wrap", "--list")
		u.wants(1, want, "wrap", "--program", u.program, "--yes", "cursor")
	}, programs.Runner)
}

// unwrap cannot help while the file is malformed, and says what does.
func TestTheRemedyForAWrappedFileThatIsMalformed(t *testing.T) {
	u := newUser(t)
	u.wants(0, nil, "wrap", "--program", u.program, "--yes")
	u.write(u.config, wrapped(u.program, "")+"}")
	backup := filepath.Join(u.home, ".local/state/mcpscope/backups", u.config)
	remedy := "repair it, or restore " + backup
	u.wants(1, []string{"which was wrapped: line 1, ", "hint: " + remedy}, "unwrap", "--yes")
}

// The format of a file without a known name was in a section of mcpscope.toml.
func TestAFileWhoseFormatNoSectionHasAnyMore(t *testing.T) {
	u := newUser(t)
	settings := filepath.Join(u.home, ".config/mcpscope/mcpscope.toml")
	own := filepath.Join(u.home, "mytool.conf")
	u.write(settings, "[client.mytool]\npath = '~/mytool.conf'\nformat = 'yaml'\nservers = ['tools']\n")
	if err := os.Chmod(settings, 0o600); err != nil {
		t.Fatal(err)
	}
	u.write(own, "tools:\n  mine:\n    command: uvx\n")
	u.wants(0, []string{"Wrapped 1 server"}, "wrap", "--program", u.program, "mytool", "--yes")
	if err := os.Remove(settings); err != nil {
		t.Fatal(err)
	}
	hint := "name the client and its format in mcpscope.toml ([client.NAME])"
	u.wants(1, []string{"not valid JSON", hint}, "unwrap", "--yes")
	u.wants(1, []string{"not valid JSON", hint}, "wrap", "--program", u.program, own)
}
