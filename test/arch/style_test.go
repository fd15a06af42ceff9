// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A type with more fields or methods than a reader remembers has several subjects. Promoted ones count, since a
// reader meets them in the same way.
const (
	mostFields  = 15
	mostMethods = 20
)

// large are the types that may have more, and why.
var large = map[string]string{
	"cgroup.Group":                  "one directory: each method is one interface file",
	"internal/server/report.Report": "the JSON of an end: flat, for one line of jq",
	"internal/render.Server":        "the JSON of a server or session: flat, for one line of jq, and for ls --format",
}

// product loads the packages of both programs and of the library, with their types.
func product(t *testing.T) []*packages.Package {
	t.Helper()
	const needs = packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps
	config := &packages.Config{Mode: needs, Dir: "../..", Env: append(os.Environ(), "CGO_ENABLED=0")}
	loaded, err := packages.Load(config, "./cgroup", "./freeze", "./scope", "./internal/...", "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded {
		for _, failure := range p.Errors {
			t.Fatal(failure)
		}
	}
	return loaded
}

// place is a position as people search for it.
func positionOf(p *packages.Package, at token.Pos) string {
	position := p.Fset.Position(at)
	return fmt.Sprintf("%s/%s:%d", strings.TrimPrefix(p.PkgPath, module), filepath.Base(position.Filename), position.Line)
}

func TestStyle(t *testing.T) {
	unused := map[string]bool{}
	for name := range large {
		unused[name] = true
	}
	loaded := product(t)
	known := namesOf(loaded)
	for _, p := range loaded {
		checkSizes(t, p, unused)
		for _, file := range p.Syntax {
			checkStatements(t, p, file)
			checkPlurals(t, p, file)
			checkDocumented(t, p, file)
			checkReferences(t, p, file, known)
			checkFilesReplaced(t, p, file)
		}
	}
	for name := range unused {
		t.Errorf("%s is on the list of large types, and is not large", name)
	}
}

// plural is a count with a noun that would be wrong for one.
var plural = regexp.MustCompile(`%d ([a-z]+ )?(agents|files|gateways|leaks|members|orphans|others|processes|servers|sessions|times)\b`)

func checkPlurals(t *testing.T, p *packages.Package, file *ast.File) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		text, ok := n.(*ast.BasicLit)
		if ok && text.Kind == token.STRING && plural.MatchString(text.Value) {
			t.Errorf("%s: %s reads badly for 1: text.Counted or cli.Counted", positionOf(p, text.Pos()), text.Value)
		}
		return true
	})
}

// replacing are functions that give a file the place of another one, or empty it.
var replacing = map[string][]string{
	"os": {"Create", "CreateTemp", "Rename", "WriteFile"},
	"github.com/prometheus/client_golang/prometheus": {"WriteToTextfile"},
}

// replacers are the packages that may call them: internal/atomicfile, and those whose files are the kernel's, or
// that only a build runs.
var replacers = []string{
	"internal/atomicfile", "internal/manual", "internal/gateway", "internal/server/helper", "internal/server/group", "cmd/mcpscope",
}

// checkFilesReplaced has one package replace files for all commands: what it refuses to replace, none of them can.
func checkFilesReplaced(t *testing.T, p *packages.Package, file *ast.File) {
	t.Helper()
	if slices.Contains(replacers, strings.TrimPrefix(p.PkgPath, module)) {
		return
	}
	ast.Inspect(file, func(n ast.Node) bool {
		name, isName := n.(*ast.Ident)
		if !isName {
			return true
		}
		called, isFunction := p.TypesInfo.Uses[name].(*types.Func)
		isOfPackage := isFunction && called.Pkg() != nil && called.Signature().Recv() == nil
		if isOfPackage && slices.Contains(replacing[called.Pkg().Path()], called.Name()) {
			t.Errorf("%s: internal/atomicfile replaces files, and not %s", positionOf(p, name.Pos()), called.FullName())
		}
		return true
	})
}

func checkSizes(t *testing.T, p *packages.Package, unused map[string]bool) {
	t.Helper()
	scope := p.Types.Scope()
	for _, name := range scope.Names() {
		declared, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || declared.IsAlias() || types.IsInterface(declared.Type()) {
			continue
		}
		fields := 0
		if s, ok := declared.Type().Underlying().(*types.Struct); ok {
			fields = countFields(s)
		}
		methods := countMethods(declared.Type())
		if fields <= mostFields && methods <= mostMethods {
			continue
		}
		full := strings.TrimPrefix(p.PkgPath, module) + "." + name
		if large[full] == "" {
			t.Errorf("%s has %d fields and %d methods: at most %d and %d", full, fields, methods, mostFields, mostMethods)
		}
		delete(unused, full)
	}
}

// countFields counts those of embedded structs of ours in the place of these.
func countFields(s *types.Struct) (count int) {
	for field := range s.Fields() {
		embedded, ok := structOf(field.Type())
		if field.Embedded() && ok && isOurs(field.Type()) {
			count += countFields(embedded)
			continue
		}
		count++
	}
	return count
}

func structOf(t types.Type) (*types.Struct, bool) {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	return s, ok
}

func isOurs(t types.Type) bool { return strings.Contains(t.String(), module) }

func countMethods(t types.Type) (count int) {
	for method := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if from := method.Obj().Pkg(); from != nil && strings.HasPrefix(from.Path(), strings.TrimSuffix(module, "/")) {
			count++
		}
	}
	return count
}

// checkStatements finds several values in one assignment, which make a reader match positions, and assignments in
// a condition, which a reader misses.
func checkStatements(t *testing.T, p *packages.Package, file *ast.File) {
	t.Helper()
	counters := map[ast.Stmt]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.ForStmt:
			counters[s.Init] = true
			counters[s.Post] = true
		case *ast.AssignStmt:
			if len(s.Rhs) > 1 && !counters[s] && !isSwap(s) {
				t.Errorf("%s: several values in one assignment", positionOf(p, s.Pos()))
			}
		case *ast.IfStmt:
			if a, ok := s.Init.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN && !assignsError(a) {
				t.Errorf("%s: an assignment in an if", positionOf(p, s.Pos()))
			}
		}
		return true
	})
}

// isSwap reports whether each value is one of the variables.
func isSwap(s *ast.AssignStmt) bool {
	for _, value := range s.Rhs {
		same := func(variable ast.Expr) bool { return types.ExprString(variable) == types.ExprString(value) }
		if !slices.ContainsFunc(s.Lhs, same) {
			return false
		}
	}
	return true
}

// assignsError reports whether the last variable is an error or ok.
func assignsError(s *ast.AssignStmt) bool {
	last, ok := s.Lhs[len(s.Lhs)-1].(*ast.Ident)
	return ok && slices.Contains([]string{"err", "errno", "e", "ok"}, last.Name)
}

// implied are methods that an interface of the standard library explains.
var implied = []string{"String", "Error", "Unwrap", "Write", "Read", "Close", "Set", "Type", "Is"}

// checkDocumented finds exported names without a comment.
func checkDocumented(t *testing.T, p *packages.Package, file *ast.File) {
	t.Helper()
	missing := func(name *ast.Ident) {
		if name.IsExported() {
			t.Errorf("%s: %s has no comment", positionOf(p, name.Pos()), name.Name)
		}
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			isMethod := d.Recv != nil
			if d.Doc == nil && !(isMethod && slices.Contains(implied, d.Name.Name)) && !(isMethod && isHidden(d.Recv)) {
				missing(d.Name)
			}
		case *ast.GenDecl:
			if d.Doc != nil {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Doc == nil && s.Comment == nil {
						missing(s.Name)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if s.Doc == nil && s.Comment == nil && !hasOwnType(p, name) {
							missing(name)
						}
					}
				}
			}
		}
	}
}

// isHidden reports whether the receiver's type is not exported.
func isHidden(receiver *ast.FieldList) bool {
	expression := receiver.List[0].Type
	if star, ok := expression.(*ast.StarExpr); ok {
		expression = star.X
	}
	name, ok := expression.(*ast.Ident)
	return ok && !name.IsExported()
}

// hasOwnType reports whether a constant is one of the values of a type of its package, whose comment explains them.
func hasOwnType(p *packages.Package, name *ast.Ident) bool {
	constant, ok := p.TypesInfo.Defs[name].(*types.Const)
	if !ok {
		return false
	}
	named, ok := types.Unalias(constant.Type()).(*types.Named)
	return ok && named.Obj().Pkg() == p.Types
}

// namesOf has, by the name of a package or an exported type, the names that a comment can refer to behind it and a
// dot. Types of several packages may have one name.
func namesOf(loaded []*packages.Package) map[string]map[string]bool {
	names := map[string]map[string]bool{}
	add := func(owner, name string) {
		if names[owner] == nil {
			names[owner] = map[string]bool{}
		}
		names[owner][name] = true
	}
	for _, p := range loaded {
		for _, name := range p.Types.Scope().Names() {
			add(p.Name, name)
			declared, isType := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !isType {
				continue
			}
			var members []string
			for method := range types.NewMethodSet(types.NewPointer(declared.Type())).Methods() {
				members = append(members, method.Obj().Name())
			}
			if s, ok := structOf(declared.Type()); ok {
				members = append(members, fieldsOf(s)...)
			}
			for _, member := range members {
				if declared.Exported() {
					add(name, member)
				}
				add(p.Name, member) // group.Make is short for group.ControlGroup.Make
			}
		}
	}
	return names
}

// fieldsOf are the names of the fields, with those of embedded structs.
func fieldsOf(s *types.Struct) (names []string) {
	for field := range s.Fields() {
		names = append(names, field.Name())
		if embedded, ok := structOf(field.Type()); ok && field.Embedded() {
			names = append(names, fieldsOf(embedded)...)
		}
	}
	return names
}

// reference is a name in a comment behind that of a type, or an exported one behind that of a package: files of the
// kernel (cgroup.kill) and tables of a file ([client.NAME]) look similar.
var reference = regexp.MustCompile(`(?:^|[ (*])(?:([A-Z]\w*)\.(\w+)|([a-z]\w*)\.([A-Z]\w*[a-z]\w*))`)

// otherReferences are names of other programs and libraries.
var otherReferences = []string{"Node.js", "Process.Kill"}

// checkReferences finds names in comments that were renamed or removed since.
func checkReferences(t *testing.T, p *packages.Package, file *ast.File, known map[string]map[string]bool) {
	t.Helper()
	for _, group := range file.Comments {
		for _, comment := range group.List {
			for _, m := range reference.FindAllStringSubmatch(comment.Text, -1) {
				owner := m[1] + m[3]
				name := m[2] + m[4]
				isOurs := known[owner] != nil && !slices.Contains(otherReferences, owner+"."+name)
				if isOurs && !known[owner][name] {
					t.Errorf("%s: there is no %s.%s", positionOf(p, comment.Pos()), owner, name)
				}
			}
		}
	}
}
