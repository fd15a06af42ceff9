// SPDX-License-Identifier: Apache-2.0

package known

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/similar"
)

// A File is one that may have servers.
type File struct {
	Client   string // the ID; "" for one that is no client's
	Title    string // of the client
	Path     string
	Format   splice.Format
	Places   []wrapping.Place
	ReadOnly string // why it must not be edited
	Project  string // the directory from which its client reads it, so other people may share it; or ""
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

// Files returns the files of a client that are there, the user's before the project's.
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

// wildcards are the letters of [fs.Glob].
const wildcards = "*?["

// glob leaves alone what a directory's own name has of glob's letters. A link to a file that does not exist
// is found too: the file can have been wrapped, and moved.
func glob(dir, pattern string) []string {
	if !strings.ContainsAny(pattern, wildcards) {
		path := filepath.Join(dir, pattern)
		if _, err := os.Lstat(path); err != nil {
			return nil
		}
		return []string{path}
	}
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
	if p.variable != "" && filepath.IsAbs(f.Getenv(p.variable)) {
		base = f.Getenv(p.variable)
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

// Unsearchable has an error for each directory of clients, in the home, that cannot be searched. The other
// directories are no business of this user.
func (f Finder) Unsearchable() []error { return f.unsearchable(f.Clients()) }

func (f Finder) unsearchable(clients []Client) []error {
	var reasons []error
	seen := map[string]bool{}
	for _, c := range clients {
		for _, p := range c.files {
			if p.base == project || p.readOnly != "" {
				continue
			}
			for _, base := range f.directories(p) {
				dir := obstacle(base, p.glob)
				if dir != "" && !seen[dir] {
					seen[dir] = true
					reasons = append(reasons, fmt.Errorf("search %s: permission denied", dir))
				}
			}
		}
	}
	return reasons
}

// probe reads the directory that has the names of a pattern, or finds a file without wildcards. It returns
// that directory, and the error.
func probe(base, pattern string) (dir string, err error) {
	wildcard := strings.IndexAny(pattern, wildcards)
	if wildcard < 0 {
		path := filepath.Join(base, pattern)
		_, err = os.Lstat(path)
		return filepath.Dir(path), err
	}
	dir = filepath.Dir(filepath.Join(base, pattern[:wildcard]+"x"))
	_, err = os.ReadDir(dir)
	return dir, err
}

// obstacle returns the directory that hides the files of a pattern, or "".
func obstacle(base, pattern string) string {
	dir, err := probe(base, pattern)
	if !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	for dir != "/" {
		if _, err := os.Lstat(dir); err == nil { // there is no right to go below it
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// Find returns what an argument means: the files of a client, or one by its path.
func (f Finder) Find(arg string) ([]File, error) {
	var files []File
	var clients []Client
	title := ""
	for _, c := range f.Clients() { // a user can add files to a known client
		if c.ID == arg {
			clients = append(clients, c)
			title = cmp.Or(title, c.Title)
			files = append(files, f.Files(c)...)
		}
	}
	switch {
	case len(files) > 0:
		return files, nil
	case title != "":
		err := fmt.Errorf("%s has no configuration here", title)
		for _, reason := range f.unsearchable(clients) {
			err = fmt.Errorf("%w, or a hidden one: cannot %w", err, reason)
		}
		return nil, err
	}
	path, err := filepath.Abs(arg)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		if !strings.ContainsAny(arg, "./") {
			err = f.unknownClient(arg)
		}
		return nil, &UnknownError{Arg: arg, reason: err}
	}
	file := f.ByPath(path)
	file.Named = true
	return []File{file}, nil
}

// UnknownError is about an argument that is neither the name of a client nor the path of a file.
type UnknownError struct {
	Arg    string
	reason error
}

func (e *UnknownError) Error() string { return e.reason.Error() }

// Unwrap returns the reason.
func (e *UnknownError) Unwrap() error { return e.reason }

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
		return fmt.Errorf("there is no client %q%s", arg, similar.Meant(near))
	}
	return fmt.Errorf("there is no client and no file %q; clients are %s", arg, strings.Join(ids, ", "))
}

// isSimilar compares letters alone: VS-Code is like vscode, and code is a part of it.
func isSimilar(arg, id string) bool {
	const leastPart = 3
	typed := lettersOf(arg)
	letters := lettersOf(id)
	if len(typed) < leastPart || len(letters) < leastPart {
		return false
	}
	return similar.Is(typed, letters) || strings.Contains(typed, letters) || strings.Contains(letters, typed)
}

func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// ByPath knows a file again that is a client's, also in another project.
func (f Finder) ByPath(path string) File {
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
	file := File{
		Client: c.ID, Title: c.Title, Path: path, Format: cmp.Or(p.format, formatOf(path)),
		Places: p.places, ReadOnly: p.readOnly,
	}
	if p.base == project {
		file.Project = path
		for range strings.Split(p.glob, "/") {
			file.Project = filepath.Dir(file.Project)
		}
	}
	return file
}

// inProject reports whether the end of a path matches the pattern of a project file.
func inProject(path, pattern string) bool {
	parts := strings.Split(path, "/")
	n := strings.Count(pattern, "/") + 1
	end := strings.Join(parts[max(0, len(parts)-n):], "/")
	ok, _ := filepath.Match(pattern, end) // a pattern that is malformed matches no file
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
