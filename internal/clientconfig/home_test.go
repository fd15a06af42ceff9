// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// testHome is a home directory, which is the working directory too, with an mcpscope.
type testHome struct {
	*testing.T
	dir, program string
}

func newHome(t *testing.T) *testHome {
	t.Helper()
	dir := t.TempDir()
	for _, variable := range []string{
		"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "SUDO_UID",
	} {
		t.Setenv(variable, "")
	}
	t.Setenv("HOME", dir)
	t.Setenv("MCPSCOPE_CONFIG", filepath.Join(dir, "mcpscope.toml"))
	t.Chdir(dir)
	h := &testHome{t, dir, filepath.Join(dir, "bin/mcpscope")}
	h.write("mcpscope.toml", "")
	h.write("bin/mcpscope", "#!/bin/sh\n")
	return h
}

// path returns the path of a file below the home.
func (h *testHome) path(name string) string { return filepath.Join(h.dir, name) }

func (h *testHome) write(name, text string) {
	h.Helper()
	path := h.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		h.Fatal(err)
	}
}

func (h *testHome) remove(name string) {
	h.Helper()
	if err := os.RemoveAll(h.path(name)); err != nil {
		h.Fatal(err)
	}
}

func (h *testHome) link(name, target string) {
	h.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(name)), 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.Symlink(target, h.path(name)); err != nil {
		h.Fatal(err)
	}
}

func (h *testHome) read(name string) string {
	h.Helper()
	text, err := os.ReadFile(h.path(name))
	if err != nil {
		h.Fatal(err)
	}
	return string(text)
}

// find returns the files below the home that a search finds: a machine has others, in /etc.
func (h *testHome) find(args ...string) Found {
	h.Helper()
	found, err := Find(args)
	if err != nil {
		h.Fatal(err)
	}
	found.Files = slices.DeleteFunc(found.Files, func(c *File) bool { return !strings.HasPrefix(c.Path, h.dir+"/") })
	return found
}

// one returns the only file that a search for that argument finds.
func (h *testHome) one(arg string) *File {
	h.Helper()
	files := h.find(arg).Files
	if len(files) != 1 {
		h.Fatalf("%s: %d files", arg, len(files))
	}
	return files[0]
}

// wrap wraps all servers of the file that the argument names.
func (h *testHome) wrap(arg string) (backup string) {
	h.Helper()
	change := h.one(arg).Wrap(wrapping.Runner{Program: h.program}, everyServer)
	if change.Count() == 0 {
		h.Fatalf("%s: there is nothing to wrap", arg)
	}
	backup, err := change.Write()
	if err != nil {
		h.Fatal(err)
	}
	return backup
}

func everyServer(string) bool { return true }

// oneServer is a configuration with a server.
const oneServer = `{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-time"]}}}`

// twiceEdited has changes of a person in two places of that configuration.
func twiceEdited(text string) string {
	return strings.Replace(strings.Replace(text, "{", `{"theirs": 1, `, 1), `"mcp-time"`, `"mcp-time", "--utc"`, 1)
}
