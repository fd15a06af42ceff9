// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// newProject is a home with a repository that tracks a configuration of Claude Code, where the test works.
func newProject(t *testing.T) *testHome {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("it needs git")
	}
	h := newHome(t)
	h.write("project/.mcp.json", oneServer)
	t.Chdir(h.path("project"))
	for _, args := range [][]string{{"init", "-q", "."}, {"add", ".mcp.json"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	return h
}

// endless is the patience of a test.
var endless = patience{own: context.Background(), foreign: context.Background()}

// reasons returns the reason of each server of a file, after LeaveShared without its deadlines.
func reasons(c *File) (texts []string) { return reasonsWithin(endless, c) }

func reasonsWithin(p patience, c *File) (texts []string) {
	leaveShared(p, c)
	for _, s := range c.Servers {
		texts = append(texts, s.Reason)
	}
	return texts
}

// Servers in a file of a project that git tracks have a reason, unless a person names the file.
func TestLeaveShared(t *testing.T) {
	h := newProject(t)
	shared := h.one("claude-code")
	if got := reasons(shared); !slices.Equal(got, []string{tracked}) {
		t.Errorf("tracked: %q", got)
	}
	if change := shared.Wrap(wrapping.Runner{Program: h.program}, everyServer); change.Count() > 0 {
		t.Errorf("wrap changes a tracked file: %s", change.Data)
	}
	if got := reasons(h.one(h.path("project/.mcp.json"))); !slices.Equal(got, []string{""}) {
		t.Errorf("named: %q", got)
	}
	h.write("project/.cursor/mcp.json", oneServer)
	if got := reasons(h.one("cursor")); !slices.Equal(got, []string{""}) {
		t.Errorf("not tracked: %q", got)
	}
	h.write("project/.git/index", "no index")
	const want = "in a repository, and git cannot report whether it tracks the file: "
	got := reasons(h.one("claude-code"))
	if len(got) != 1 || !strings.HasPrefix(got[0], want) || !strings.HasSuffix(got[0], ": to change it, name the file") {
		t.Errorf("no index: %q", got)
	}
}

// A FIFO in a repository keeps git waiting, and with it whoever works in a directory where anybody makes files.
func TestGitThatDoesNotAnswer(t *testing.T) {
	h := newProject(t)
	h.remove("project/.git/config")
	if err := syscall.Mkfifo(h.path("project/.git/config"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // git has less time for this
		if err := os.Chown(h.path("project/.git"), 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	c := h.one("claude-code")
	LeaveShared([]*File{c})
	if got := c.Servers[0].Reason; !strings.Contains(got, "not within") {
		t.Errorf("%q", got)
	}
}

// A large repository of the calling user has more time than one of another user, who may want to keep git
// waiting.
func TestPatienceWithAnOwnRepository(t *testing.T) {
	h := newProject(t)
	over, end := context.WithCancelCause(context.Background())
	end(errors.New("not within the time"))
	p := patience{own: context.Background(), foreign: over}
	if got := reasonsWithin(p, h.one("claude-code")); !slices.Equal(got, []string{tracked}) {
		t.Errorf("own: %q", got)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	if err := os.Chown(h.path("project/.git"), 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if got := reasonsWithin(p, h.one("claude-code")); !strings.Contains(got[0], "not within the time") {
		t.Errorf("of another user: %q", got)
	}
}

// Without git, nothing is known of a file in a repository, and everything of one outside.
func TestIsTracked(t *testing.T) {
	h := newProject(t)
	h.write("outside/.mcp.json", oneServer)
	t.Setenv("PATH", h.dir)
	if _, err := isTracked(endless, h.path("project/.mcp.json")); err == nil {
		t.Error("no error without git")
	}
	is, err := isTracked(endless, h.path("outside/.mcp.json"))
	if is || err != nil {
		t.Errorf("outside: %v, %v", is, err)
	}
	// The dotfiles of one person can be in a repository at the top of the home.
	t.Setenv("HOME", h.path("project"))
	is, err = isTracked(endless, h.path("project/.mcp.json"))
	if is || err != nil {
		t.Errorf("in the home: %v, %v", is, err)
	}
}

func TestRepository(t *testing.T) {
	top := t.TempDir()
	below := filepath.Join(top, "a/b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	// A worktree has a file of this name.
	if err := os.WriteFile(filepath.Join(top, "a/.git"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		below: filepath.Join(top, "a"), below + "/": filepath.Join(top, "a"), filepath.Join(top, "a"): filepath.Join(top, "a"),
	} {
		if got := repository(dir); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
	if !sameDirectory(top, top+"/a/..") || sameDirectory(top, below) || sameDirectory(top, top+"/none") {
		t.Error("directories are compared by their names")
	}
}

// Only root can run for another user, and 0 is root itself.
func TestIsSudo(t *testing.T) {
	isRoot := os.Geteuid() == 0
	for value, want := range map[string]bool{"": false, "0": false, "x": false, "1000": isRoot} {
		t.Setenv("SUDO_UID", value)
		if got := IsSudo(); got != want {
			t.Errorf("SUDO_UID=%s: %v, want %v", value, got, want)
		}
	}
}

// A file of the user who called sudo is left to that user.
func TestIsOfSudoUser(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	c := h.one("cursor")
	t.Setenv("SUDO_UID", "1234")
	if c.IsOfSudoUser() {
		t.Error("a file of this user is of another")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	if err := os.Chown(c.Path, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if !c.IsOfSudoUser() {
		t.Error("a file of uid 1234 is not of SUDO_UID=1234")
	}
	h.remove(".cursor/mcp.json")
	if c.IsOfSudoUser() {
		t.Error("a file that was removed has an owner")
	}
}
