// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// summary has a line for each server of files, and for each file without one: PATH NAME STATE.
func (h *testHome) summary(found Found) (lines []string) {
	for _, c := range found.Files {
		path := strings.TrimPrefix(c.Path, h.dir+"/")
		if len(c.Servers) == 0 {
			lines = append(lines, fmt.Sprintf("%s %v", path, c.Err))
		}
		for _, s := range c.Servers {
			lines = append(lines, fmt.Sprintf("%s %s %s", path, s.Name, s.State))
		}
	}
	return lines
}

func (h *testHome) wantSummary(found Found, want ...string) {
	h.Helper()
	if got := h.summary(found); !slices.Equal(got, want) {
		h.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A search finds the files of the home and of the project, and the state of each server.
func TestFindServers(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", `{"mcpServers": {
		"bare": {"command": "uvx", "args": ["x"]},
		"wrapped": {"command": "`+h.program+`", "args": ["run", "--", "uvx"]},
		"gone": {"command": "/no/such/mcpscope", "args": ["run", "--", "uvx"]},
		"refused": {"command": "`+h.program+`", "args": ["run", "--memory-max", "1 GB", "--", "uvx"]},
		"remote": {"url": "https://example.com/mcp"}}}`)
	h.write("project/.mcp.json", "{")
	h.write(".codex/config.toml", "[mcp_servers.time]\ncommand = 'uvx'\n")
	t.Chdir(h.path("project"))
	h.wantSummary(h.find(),
		"project/.mcp.json line 1, column 1: not valid JSON: this { is never closed",
		".codex/config.toml time bare",
		".cursor/mcp.json bare bare", ".cursor/mcp.json wrapped wrapped", ".cursor/mcp.json gone broken",
		".cursor/mcp.json refused broken", ".cursor/mcp.json remote not editable")
	h.wantSummary(h.find("codex"), ".codex/config.toml time bare")
	h.wantSummary(h.find(".mcp.json", "codex"),
		"project/.mcp.json line 1, column 1: not valid JSON: this { is never closed", ".codex/config.toml time bare")
}

// An argument can be the name of a client, also of one in mcpscope.toml, or a path. A mistake in that file is
// a part of the error, because the client may be there.
func TestFindNames(t *testing.T) {
	h := newHome(t)
	h.write("mcpscope.toml", "[client.mytool]\npath = '~/.mytool/mcp.json'\nservers = ['tools', 'mcp']\n[defaults]\noops = 1\n")
	h.write(".mytool/mcp.json", `{"tools": {"mcp": {"mine": {"command": "uvx"}}}}`)
	h.wantSummary(h.find("mytool"), ".mytool/mcp.json mine bare")
	known := func(id string) bool {
		for _, c := range Clients() {
			if c.ID == id {
				return true
			}
		}
		return false
	}
	if !known("mytool") || !known("cursor") {
		t.Error("a client cannot be named")
	}
	mistake := ":5: unknown key \"oops\""
	for arg, want := range map[string]string{
		"mytol":       `there is no client "mytol"; did you mean mytool?`,
		"cursor":      "Cursor has no configuration here",
		"./none.json": "stat " + h.path("none.json") + ": no such file or directory",
	} {
		_, err := Find([]string{arg})
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), mistake) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
	h.write("mcpscope.toml", "")
	if err := mistakesInSettings(); err != nil {
		t.Error(err)
	}
}

// A file that several clients share is read once, and has the places of all of them.
func TestASharedFileIsReadOnce(t *testing.T) {
	h := newHome(t)
	h.write("shared.json", `{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}}`)
	h.link(".cursor/mcp.json", "../shared.json")
	h.link(".vscode-server/data/User/mcp.json", "../../../shared.json")
	h.link(".kiro/settings/mcp.json", "../../shared.json")
	h.wantSummary(h.find(), ".cursor/mcp.json a bare", ".cursor/mcp.json b bare")
	named := h.find("cursor", h.path("shared.json"))
	if len(named.Files) != 1 || !named.Files[0].Named {
		t.Errorf("the file is not named: %+v", named.Files)
	}
}

func TestUnion(t *testing.T) {
	a := []wrapping.Place{{"servers"}, {"mcp", "servers"}}
	got := union(a, []wrapping.Place{{"mcp"}, {"servers"}})
	want := []wrapping.Place{{"servers"}, {"mcp", "servers"}, {"mcp"}}
	if !slices.EqualFunc(got, want, slices.Equal[wrapping.Place]) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(union(nil, a)) != 2 || len(union(a, a)) != 2 || len(a) != 2 {
		t.Error("a place is there twice, or missing")
	}
}

// A backup names a file that no client has. It is found as long as one of its servers is wrapped.
func TestFindByBackup(t *testing.T) {
	h := newHome(t)
	h.write("own.json", oneServer)
	h.wantSummary(h.find())
	backup := h.wrap(h.path("own.json"))
	found := h.find()
	h.wantSummary(found, "own.json time wrapped")
	if c := found.Files[0]; !c.Named || !c.HasBackup() || c.Client != "" {
		t.Errorf("%+v", c)
	}
	h.write("own.json", oneServer)
	found = h.find()
	h.wantSummary(found)
	if len(found.Left) != 1 || found.Left[0].Backup != backup {
		t.Errorf("left: %+v", found.Left)
	}
}

// The name of a client finds its wrapped files in all projects, from any directory, and no others there.
func TestFindWrappedFilesOfAClient(t *testing.T) {
	h := newHome(t)
	for _, project := range []string{"one", "two", "three"} {
		h.write(project+"/.cursor/mcp.json", oneServer)
	}
	h.write("one/.mcp.json", oneServer)
	for _, file := range []string{"one/.cursor/mcp.json", "two/.cursor/mcp.json", "one/.mcp.json"} {
		h.wrap(h.path(file))
	}
	h.wantSummary(h.find("cursor"), "one/.cursor/mcp.json time wrapped", "two/.cursor/mcp.json time wrapped")
	t.Chdir(h.path("three"))
	h.wantSummary(h.find("cursor"), "three/.cursor/mcp.json time bare",
		"one/.cursor/mcp.json time wrapped", "two/.cursor/mcp.json time wrapped")
	h.write("one/.cursor/mcp.json", oneServer) // unwrapped by a person
	h.remove("two")
	h.wantSummary(h.find("cursor"), "three/.cursor/mcp.json time bare")
	t.Chdir(h.dir)
	if _, err := Find([]string{"cursor"}); err == nil || err.Error() != "Cursor has no configuration here" {
		t.Errorf("without a wrapped file: %v", err)
	}
}

// A wrapped server can be where no known client has servers: the section that named the client was removed.
func TestFindWrappedServersElsewhere(t *testing.T) {
	h := newHome(t)
	h.write("own.json", oneServer)
	backup := h.wrap(h.path("own.json"))
	h.write("own.json", `{"tools": {"time": {"command": "`+h.program+`", "args": ["run", "--", "uvx"]}}}`)
	found := h.find()
	h.wantSummary(found, "own.json it starts mcpscope where no known client has its servers: "+
		"name the client in mcpscope.toml ([client.NAME]), or restore "+backup)
	if len(found.Left) > 0 {
		t.Errorf("left: %+v", found.Left)
	}
}

// A link without a target is found if it was wrapped. A file that was removed is not.
func TestFindWhatIsGone(t *testing.T) {
	h := newHome(t)
	h.write("dotfiles/mcp.json", oneServer)
	h.link(".cursor/mcp.json", "../dotfiles/mcp.json")
	h.link(".kiro/settings/mcp.json", "../../none.json")
	h.wantSummary(h.find(), ".cursor/mcp.json time bare")
	h.wrap("cursor")
	h.remove("dotfiles")
	found := h.find()
	h.wantSummary(found, ".cursor/mcp.json no such file or directory")
	h.remove(".cursor")
	found = h.find()
	h.wantSummary(found)
	if len(found.Left) != 1 || !found.Left[0].Removed {
		t.Errorf("left: %+v", found.Left)
	}
}
