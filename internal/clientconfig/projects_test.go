// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inAllProjects returns the files below the home, in the directories of all projects.
func (h *testHome) inAllProjects() Found {
	h.Helper()
	found, err := NewSearch().InAllProjects()
	if err != nil {
		h.Fatal(err)
	}
	found.Files = slices.DeleteFunc(found.Files, func(c *File) bool { return !strings.HasPrefix(c.Path, h.dir+"/") })
	return found
}

// Each client's list of projects is read, from any directory. A directory that its user distrusts, and one that
// does not exist, are left out.
func TestProjectsThatClientsList(t *testing.T) {
	h := newHome(t)
	projects := []string{"shop", "api", "site", "lab", "my notes"}
	for _, project := range append(projects, "distrusted", "hostile", "unknown") {
		h.write(project+"/.mcp.json", oneServer)
	}
	h.write("shop/.git/HEAD", "")
	h.write("shop/web/index.js", "")
	h.write(".claude.json", `{"projects": {
		"`+h.path("shop/web")+`": {"mcpServers": {"local": {"command": "uvx", "args": ["y"]}}},
		"`+h.path("none")+`": {}, "relative": {}}}`)
	h.write(".codex/config.toml", "[projects.'"+h.path("api")+"']\ntrust_level = 'trusted'\n"+
		"[projects.'"+h.path("distrusted")+"']\ntrust_level = 'untrusted'\n")
	h.write(".gemini/trustedFolders.json",
		`{"`+h.path("site")+`": "TRUST_FOLDER", "`+h.path("hostile")+`": "DO_NOT_TRUST"}`)
	h.write(".local/share/opencode/storage/project/1.json", `{"id": "1", "worktree": "`+h.path("lab")+`"}`)
	h.write(".config/Cursor/User/workspaceStorage/1/workspace.json",
		`{"folder": "file://`+strings.ReplaceAll(h.path("my notes"), " ", "%20")+`"}`)
	h.write(".config/Code/User/workspaceStorage/2/workspace.json", `{"folder": "vscode-remote://ssh/`+h.path("unknown")+`"}`)

	found := h.inAllProjects()
	h.wantSummary(found, ".claude.json local bare", ".codex/config.toml <nil>",
		"shop/.mcp.json time bare", "api/.mcp.json time bare", "site/.mcp.json time bare",
		"lab/.mcp.json time bare", "my notes/.mcp.json time bare")
	want := []string{h.dir, h.path("shop/web"), h.path("api"), h.path("site"), h.path("lab"), h.path("my notes")}
	if !slices.Equal(found.Searched, want) || len(found.Lists) > 0 {
		t.Errorf("searched %q (%v), want %q", found.Searched, found.Lists, want)
	}
	// wrap changes no file of a project that its user is not in.
	h.wantSummary(h.find(), ".claude.json local bare", ".codex/config.toml <nil>")

	t.Chdir(h.path("shop"))
	found = h.inAllProjects()
	if got := len(found.Files); got != 7 || found.Searched[1] != h.path("shop") {
		t.Errorf("in a project: %d files, searched %q", got, found.Searched)
	}
}

// A client that was started in the home has a project there.
func TestTheHomeAsAProject(t *testing.T) {
	h := newHome(t)
	h.write(".mcp.json", oneServer)
	h.write(".claude.json", `{"projects": {"`+h.dir+`": {}}}`)
	h.wantSummary(h.inAllProjects(), ".claude.json <nil>", ".mcp.json time bare")
}

// The number of projects is bounded, and a list that cannot be read is named.
func TestProjectsThatAreNotSearched(t *testing.T) {
	h := newHome(t)
	var keys []string
	for i := range mostProjects + 3 {
		project := fmt.Sprintf("p%d", i)
		h.write(project+"/file", "")
		keys = append(keys, fmt.Sprintf("%q: {}", h.path(project)))
	}
	h.write(".claude.json", `{"projects": {`+strings.Join(keys, ", ")+`}}`)
	h.write(".gemini/trustedFolders.json", "{")
	found := h.inAllProjects()
	want := "[read " + h.path(".gemini/trustedFolders.json") +
		": line 1, column 1: not valid JSON: this { is never closed look into 3 more projects: at most 200 are searched]"
	if got := fmt.Sprint(found.Lists); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := len(found.Searched); got != 1+mostProjects {
		t.Errorf("%d directories", got)
	}
}

// A file of another user in a project names no process of the caller.
func TestProjectFileOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root, who gives a file away")
	}
	h := newHome(t)
	h.write("shop/.mcp.json", oneServer)
	h.write(".claude.json", `{"projects": {"`+h.path("shop")+`": {}}}`)
	if err := os.Chown(filepath.Join(h.dir, "shop/.mcp.json"), 12345, -1); err != nil {
		t.Fatal(err)
	}
	want := []string{"cannot read " + h.path("shop/.mcp.json") + ": it belongs to another user"}
	for _, dir := range []string{h.dir, h.path("shop")} {
		t.Chdir(dir)
		if got := h.inAllProjects().UnreadLines(); !slices.Equal(got, want) {
			t.Errorf("in %s: %q", dir, got)
		}
	}
	search := NewSearch()
	_, _ = search.InAllProjects() // a search of all projects leaves those of this one alone
	here, err := search.Everywhere()
	isThere := func(c *File) bool { return c.Path == h.path("shop/.mcp.json") && c.Err == nil }
	if err != nil || !slices.ContainsFunc(here.Files, isThere) {
		t.Errorf("the file is missing in its directory: %v", err)
	}
}
