// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// newProject is a user in a repository that tracks a configuration of Claude Code.
func newProject(t *testing.T) *homeUser {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("it needs git")
	}
	u := newUser(t)
	project := filepath.Join(u.home, "project")
	u.config = filepath.Join(project, ".mcp.json")
	u.write(u.config, cursor)
	if err := os.Remove(filepath.Join(u.home, ".cursor/mcp.json")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(project)
	u.git("init", "-q", ".")
	u.git("add", ".mcp.json")
	u.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")
	return u
}

func (u *homeUser) git(args ...string) {
	u.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		u.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// A hook has variables of its own repository.
func TestWrapBelowAHookOfGit(t *testing.T) {
	u := newProject(t)
	t.Setenv("GIT_DIR", filepath.Join(u.home, "elsewhere.git"))
	t.Setenv("GIT_INDEX_FILE", filepath.Join(u.home, "index"))
	u.wants(0, []string{"bare: tracked by git", "nothing to wrap"}, "wrap", "--program", u.program, "--yes")
	u.wantsFile(cursor)
}

// A file that git may track stays as it is while git cannot answer.
func TestWrapWhereGitCannotAnswer(t *testing.T) {
	u := newProject(t)
	path := os.Getenv("PATH")
	t.Setenv("PATH", u.home)
	u.wants(0, []string{"bare: in a repository, and git cannot report whether it tracks the file: ", "not found"},
		"wrap", "--program", u.program, "--yes")
	u.wantsFile(cursor)
	t.Setenv("PATH", path)
	u.write(filepath.Join(u.home, "project/.git/index"), "no index")
	u.wants(0, []string{"bare: in a repository, and git cannot report whether it tracks the file: ", "index"},
		"wrap", "--program", u.program, "--yes")
	u.wantsFile(cursor)
	u.wants(0, []string{"Wrapped 1 server"}, "wrap", "--program", u.program, "--yes", ".mcp.json")
}

// git refuses to read a repository of another user ("dubious ownership").
func TestWrapInARepositoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	u := newProject(t)
	for _, path := range []string{".", ".git", ".mcp.json"} {
		if err := os.Chown(path, 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	u.wants(0, []string{"bare: tracked by git", "nothing to wrap"}, "wrap", "--program", u.program, "--yes")
	u.wantsFile(cursor)
}

// A file that was wrapped by its path once is not named for good.
func TestABackupDoesNotNameAFileWithoutAWrappedServer(t *testing.T) {
	u := newProject(t)
	u.wants(0, []string{"Wrapped 1 server"}, "wrap", "--program", u.program, "--yes", ".mcp.json")
	u.git("checkout", "-q", ".mcp.json")
	u.wants(0, []string{"bare: tracked by git", "nothing to wrap"}, "wrap", "--program", u.program, "--yes")
	u.wantsFile(cursor)
}

// A link can lead into a repository of dotfiles, which other machines have, too. The file is the user's own, so wrap
// changes it with a note, and unwrap prints nothing.
func TestWrapOfTrackedDotfiles(t *testing.T) {
	u := newProject(t)
	link := filepath.Join(u.home, ".cursor/mcp.json")
	if err := os.Symlink(u.config, link); err != nil {
		t.Fatal(err)
	}
	u.wants(0, []string{`"target": "` + u.config + `"`}, "wrap", "--list", "--json", "cursor")
	const note = ": its servers fail on a machine that does not have mcpscope at this path\n"
	want := "mcpscope: note: git tracks " + u.config + note
	u.wants(0, []string{want, "Wrapped 1 server"}, "wrap", "--program", u.program, "--yes", "cursor")
	if got := say("wrap", "--program", u.program, "--yes", "cursor"); got.err != "" {
		t.Errorf("nothing changes: %s", got.err)
	}
	if got := say("unwrap", "--yes"); got.err != "" {
		t.Errorf("unwrap: %s", got.err)
	}
	u.wantsFile(cursor)
}
