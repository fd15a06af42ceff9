// SPDX-License-Identifier: Apache-2.0

package known

import "github.com/mcpscope/mcpscope/internal/clientconfig/splice"

// A ProjectList is a file in which a client keeps directories that it was started in.
type ProjectList struct {
	Path   string
	Format splice.Format
	// Keys lead to a map whose names are directories, or to the text of one.
	Keys []string
}

// projectLists returns the places of project lists, of clients that have files in projects. Other clients
// keep no list, or keep it in a database.
func projectLists() []pattern {
	return []pattern{
		in("~", ".claude.json", place("projects")).or("CLAUDE_CONFIG_DIR"),
		in("~/.codex", "config.toml", place("projects")).or("CODEX_HOME"),
		in("~/.gemini", "trustedFolders.json", place()),
		in("~/.qwen", "trustedFolders.json", place()),
		in("~/.local/share", "opencode/storage/project/*.json", place("worktree")).or("XDG_DATA_HOME"),
		in("~/.config", "*/User/workspaceStorage/*/workspace.json", place("folder")).or(config),
	}
}

// ProjectLists are the lists that are there.
func (f Finder) ProjectLists() []ProjectList {
	var lists []ProjectList
	for _, p := range projectLists() {
		for _, dir := range f.directories(p) {
			for _, path := range glob(dir, p.glob) {
				lists = append(lists, ProjectList{Path: path, Format: formatOf(path), Keys: p.places[0]})
			}
		}
	}
	return lists
}

// InProject are the files that clients read when they are started in a directory, without the user's.
func (f Finder) InProject(dir string) []File {
	f.Dir = dir
	dirs := f.ancestors()
	if dir == f.Home { // wrap does not take the home for a project, and clients do
		dirs = []string{dir}
	}
	var found []File
	for _, c := range f.Clients() {
		for _, p := range c.files {
			if p.base != project {
				continue
			}
			for _, above := range dirs {
				for _, path := range glob(above, p.glob) {
					found = append(found, p.file(c, path))
				}
			}
		}
	}
	return found
}
