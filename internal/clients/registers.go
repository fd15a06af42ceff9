// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"path/filepath"
	"slices"

	"github.com/mcpscope/mcpscope/internal/splice"
	"github.com/mcpscope/mcpscope/internal/wrapping"
)

// A Register is a file in which a client keeps the projects that it was used in.
type Register struct {
	Path   string
	Format splice.Format
	// Place has a map whose keys are the directories, or their file: URLs.
	Place wrapping.Place
}

// registers are those that are known. Cursor, Kiro and others that are made from VS Code have its layout.
func registers() []pattern {
	workspaces := place("profileAssociations", "workspaces")
	return []pattern{
		jsonIn("~", ".claude.json", place("projects")).or("CLAUDE_CONFIG_DIR"),
		tomlIn("~/.codex", "config.toml", place("projects")).or("CODEX_HOME"),
		jsonIn("~/.gemini", "trustedFolders.json", []wrapping.Place{{}}),
		jsonIn("~/.qwen", "trustedFolders.json", []wrapping.Place{{}}),
		jsonIn("~/.config", "*/User/globalStorage/storage.json", workspaces).or(config),
		jsonIn("~", ".vscode-server*/data/User/globalStorage/storage.json", workspaces),
	}
}

// Registers are those that are there.
func (f Finder) Registers() []Register {
	var found []Register
	for _, p := range registers() {
		for _, dir := range f.directories(p) {
			for _, path := range glob(dir, p.glob) {
				found = append(found, Register{path, p.format, p.places[0]})
			}
		}
	}
	return found
}

// Within are the files that clients have in a project, of all clients.
func (f Finder) Within(project string) []File {
	var found []File
	for _, c := range All() {
		for _, p := range c.files {
			if p.base != "" || filepath.Clean(project) == filepath.Clean(f.Home) { // the home is no project
				continue
			}
			for _, path := range glob(project, p.glob) {
				if !slices.ContainsFunc(found, func(o File) bool { return o.Path == path }) {
					found = append(found, File{c.ID, path, p.format, p.places, p.readOnly})
				}
			}
		}
	}
	return found
}
