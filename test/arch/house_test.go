// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// linesMost is what a reader can get to know in a day: of the files of a package that are no tests.
	linesMost = 1400
	// knotMost is how many files of one package may all depend on each other, directly or by way of others.
	knotMost = 10
)

// public are the packages that programs of others may import; the compiler keeps them from the rest.
var public = []string{"cgroup", "freeze", "scope"}

// exempt from the bounds are packages that are a list of commands, each in a file of its own.
var exempt = map[string]string{
	tool:               "a file for each command, and what they share",
	"internal/gateway": "one watcher, which looks at one program at a time in many ways",
}

// house is a package of the product with its files.
type house struct {
	name, doc string
	program   bool
	files     []*ast.File
	paths     []string
	lines     int
}

func houses(t *testing.T) []house {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Dir,Doc,GoFiles", "../../...")
	cmd.Env = append(cmd.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []house
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Name, Dir, Doc string
			GoFiles                    []string
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "packaging/") || strings.HasPrefix(name, "demo") {
			continue
		}
		h := house{name: name, doc: p.Doc, program: p.Name == "main"}
		set := token.NewFileSet()
		for _, base := range p.GoFiles {
			path := filepath.Join(p.Dir, base)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(set, path, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			h.files, h.paths = append(h.files, f), append(h.paths, base)
			h.lines += strings.Count(strings.TrimPrefix(string(text), spdx), "\n")
		}
		all = append(all, h)
	}
}

// spdx is what make spdx puts in front of a file; nobody reads it.
const spdx = "// SPDX-License-Identifier: Apache-2.0\n\n"

func TestHouse(t *testing.T) {
	for _, h := range houses(t) {
		for _, fault := range h.faults() {
			t.Errorf("%s: %s", h.name, fault)
		}
	}
}

// faults are what a reader would stumble over.
func (h house) faults() []string {
	var all []string
	if h.doc == "" {
		all = append(all, "it has no package comment")
	}
	if !strings.Contains(h.name, "internal/") && !h.program && !slices.Contains(public, h.name) {
		all = append(all, "it is public, and not on the list")
	}
	if exempt[h.name] != "" {
		return all
	}
	if h.lines > linesMost {
		all = append(all, "it has too many lines")
	}
	if knot := h.knot(); len(knot) > knotMost {
		all = append(all, "files that all depend on each other: "+strings.Join(knot, " "))
	}
	return all
}

// knot is the largest set of files each of which can be reached from each. A file depends on another if it
// uses a name that is declared there; a method is where its type is.
func (h house) knot() []string {
	where := map[string]int{}
	for i, f := range h.files {
		for name := range declared(f) {
			where[name] = i
		}
	}
	n := len(h.files)
	reaches := make([][]bool, n)
	for i, f := range h.files {
		reaches[i] = make([]bool, n)
		ast.Inspect(f, func(node ast.Node) bool {
			if sel, ok := node.(*ast.SelectorExpr); ok { // a field or a method: its type is named elsewhere
				ast.Inspect(sel.X, func(inner ast.Node) bool {
					h.reach(where, reaches[i], inner)
					return true
				})
				return false
			}
			h.reach(where, reaches[i], node)
			return true
		})
	}
	for k := range n {
		for i := range n {
			for j := range n {
				reaches[i][j] = reaches[i][j] || reaches[i][k] && reaches[k][j]
			}
		}
	}
	var largest []string
	for i := range n {
		var knot []string
		for j := range n {
			if i == j || reaches[i][j] && reaches[j][i] {
				knot = append(knot, h.paths[j])
			}
		}
		if len(knot) > len(largest) {
			largest = knot
		}
	}
	return largest
}

func (h house) reach(where map[string]int, to []bool, node ast.Node) {
	if id, ok := node.(*ast.Ident); ok {
		if i, ours := where[id.Name]; ours {
			to[i] = true
		}
	}
}

// declared are the names of a file that others can use, but for methods.
func declared(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, id := range s.Names {
						names[id.Name] = true
					}
				}
			}
		}
	}
	return names
}

// Launcher and supervisor know each other by a socket and a pidfd alone, through other packages too.
func TestTheTwoProcessesKnowNothingOfEachOther(t *testing.T) {
	for of, not := range map[string]string{room + "launcher": room + "supervisor", room + "supervisor": room + "launcher"} {
		cmd := exec.Command("go", "list", "-deps", "../../"+of)
		cmd.Env = append(cmd.Environ(), "GOOS=linux")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(strings.Fields(string(out)), module+not) {
			t.Errorf("%s imports %s, if not itself", of, not)
		}
	}
}
