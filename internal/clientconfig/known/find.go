// SPDX-License-Identifier: Apache-2.0

package known

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// A File is one that may have servers.
type File struct {
	Client   string // the ID; "" for one that is no client's
	Title    string // of the client
	Path     string
	Format   splice.Format
	Places   []wrapping.Place
	ReadOnly string // why it must not be edited
	Project  bool   // its client reads it from a project, so other people may share it
	Named    bool   // a person has named the file itself
}

// A Finder looks for files.
type Finder struct {
	Getenv func(string) string
	Home   string
	Dir    string   // the working directory
	Own    []Client // beside the known ones
}

// Clients are the known ones, and those of the user.
func (f Finder) Clients() []Client { return append(All(), f.Own...) }

// All are the files of every client that are there.
func (f Finder) All() []File {
	var found []File
	for _, c := range f.Clients() {
		found = append(found, f.Files(c)...)
	}
	return found
}

// Files are those of a client that are there, the user's before the project's.
func (f Finder) Files(c Client) []File {
	var found []File
	for _, p := range c.files {
		for _, dir := range f.directories(p) {
			for _, path := range glob(dir, p.glob) {
				found = append(found, p.file(c, path))
			}
		}
	}
	return found
}

// glob leaves alone what a directory's own name has of glob's letters.
func glob(dir, pattern string) []string {
	var found []string
	names, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are ours, and well-formed
	for _, name := range names {
		found = append(found, filepath.Join(dir, name))
	}
	return found
}

func (f Finder) directories(p pattern) []string {
	if p.base == project {
		return f.ancestors()
	}
	base := p.base
	if value := f.Getenv(p.variable); p.variable != "" && filepath.IsAbs(value) {
		base = value
	}
	if rest, ok := strings.CutPrefix(base, "~"); ok {
		if f.Home == "" {
			return nil
		}
		base = filepath.Join(f.Home, rest)
	}
	return []string{base}
}

// ancestors are the directory and those above it, up to the top of the repository that it is in;
// without one there is only itself. The home is no project.
func (f Finder) ancestors() []string {
	var dirs []string
	for dir := f.Dir; filepath.IsAbs(dir) && dir != f.Home; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dirs
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return dirs[:min(len(dirs), 1)]
}

// Find returns what an argument means: the files of a client, or one by its path.
func (f Finder) Find(arg string) ([]File, error) {
	var files []File
	title := ""
	for _, c := range f.Clients() { // a user can add files to a known client
		if c.ID == arg {
			title = cmp.Or(title, c.Title)
			files = append(files, f.Files(c)...)
		}
	}
	switch {
	case len(files) > 0:
		return files, nil
	case title != "":
		return nil, fmt.Errorf("%s has no configuration here", title)
	}
	path, err := filepath.Abs(arg)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		if !strings.ContainsAny(arg, "./") {
			return nil, f.unknownClient(arg)
		}
		return nil, err
	}
	file := f.byPath(path)
	file.Named = true
	return []File{file}, nil
}

// unknownClient suggests the clients whose names are similar, or lists all.
func (f Finder) unknownClient(arg string) error {
	var ids, near []string
	for _, c := range f.Clients() {
		ids = append(ids, c.ID)
		if isSimilar(arg, c.ID) {
			near = append(near, c.ID)
		}
	}
	if len(near) > 0 {
		return fmt.Errorf("there is no client %q; did you mean %s?", arg, strings.Join(near, " or "))
	}
	return fmt.Errorf("there is no client and no file %q; clients are %s", arg, strings.Join(ids, ", "))
}

// isSimilar compares letters alone: one name has the other, or both begin alike.
func isSimilar(arg, id string) bool {
	const alike = 3
	a, b := lettersOf(arg), lettersOf(id)
	if len(a) < alike || len(b) < alike {
		return false
	}
	return strings.Contains(a, b) || strings.Contains(b, a) || a[:alike] == b[:alike]
}

func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// byPath knows a file again that is a client's, also in another project.
func (f Finder) byPath(path string) File {
	for _, file := range f.All() {
		if file.Path == path {
			return file
		}
	}
	for _, c := range f.Clients() {
		for _, p := range c.files {
			if p.base == project && inProject(path, p.glob) {
				return p.file(c, path)
			}
		}
	}
	return pattern{base: "/", places: everywhere}.file(Client{}, path)
}

func (p pattern) file(c Client, path string) File {
	return File{
		Client: c.ID, Title: c.Title, Path: path, Format: cmp.Or(p.format, formatOf(path)),
		Places: p.places, ReadOnly: p.readOnly, Project: p.base == project,
	}
}

// inProject reports whether the end of a path matches the pattern of a project file.
func inProject(path, pattern string) bool {
	parts := strings.Split(path, "/")
	n := strings.Count(pattern, "/") + 1
	ok, _ := filepath.Match(pattern, strings.Join(parts[max(0, len(parts)-n):], "/"))
	return ok
}

func formatOf(path string) splice.Format {
	switch filepath.Ext(path) {
	case ".toml":
		return splice.TOML
	case ".yaml", ".yml":
		return splice.YAML
	}
	return splice.JSON
}
