// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each change still fits the source, and the package compiles with it.
func TestChangesFit(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	for _, m := range mechanisms {
		changed, err := apply(m.edits)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if err := c.check(changed); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if _, err := apply([]edit{patience}); err != nil {
		t.Error(err)
	}
}

// checker type-checks packages of the product; what they import has been compiled.
type checker struct {
	fset     *token.FileSet
	exports  map[string]string   // import path → file
	files    map[string][]string // directory → its sources
	importer types.Importer
	parsed   map[string]*ast.File
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}", "./cmd/mcpscope", "./cmd/mcpscopectl")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{fset: token.NewFileSet(), exports: map[string]string{}, files: map[string][]string{}, parsed: map[string]*ast.File{}}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		c.exports[f[0]] = f[1]
		if dir, err := filepath.Rel(top, f[2]); err == nil {
			c.files[dir] = strings.Fields(f[3])
		}
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.exports[path]) })
	return c
}

// check compiles the packages of the changed files.
func (c *checker) check(changed map[string][]byte) error {
	dirs := map[string]bool{}
	for name := range changed {
		dirs[filepath.Dir(name)] = true
	}
	for dir := range dirs {
		var files []*ast.File
		for _, file := range c.files[dir] {
			name := filepath.Join(dir, file)
			parsed, err := c.parse(name, changed[name])
			if err != nil {
				return err
			}
			files = append(files, parsed)
		}
		conf := types.Config{Importer: c.importer}
		if _, err := conf.Check(dir, c.fset, files, nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) parse(name string, text []byte) (*ast.File, error) {
	if text != nil {
		return parser.ParseFile(c.fset, name, text, 0)
	}
	if c.parsed[name] == nil {
		parsed, err := parser.ParseFile(c.fset, filepath.Join(root, name), nil, 0)
		if err != nil {
			return nil, err
		}
		c.parsed[name] = parsed
	}
	return c.parsed[name], nil
}

// The committed page has a row for each mechanism, and for nothing else.
func TestCommittedPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/dev/ablation.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if row, is := strings.CutPrefix(line, "| "); is {
			name, _, _ := strings.Cut(row, " |")
			rows[name]++
		}
	}
	for _, m := range mechanisms {
		if rows[m.name] != 1 {
			t.Errorf("%d rows for %s; make ablation writes the page anew", rows[m.name], m.name)
		}
		delete(rows, m.name)
	}
	delete(rows, "without") // their heads
	for name := range rows {
		t.Errorf("a row for %q, which is no mechanism", name)
	}
}
