// SPDX-License-Identifier: Apache-2.0

package known_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

var update = flag.Bool("update", false, "write the .wrapped files anew")

// testdata has a home and a project for each client, with files as its documentation shows them, and beside
// each what it is when it is wrapped. "-" has those that are no client's own.

// filesBelow leaves out the wrapped ones.
func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".wrapped") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func finderOf(t *testing.T, id string) known.Finder {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", id))
	if err != nil {
		t.Fatal(err)
	}
	return known.Finder{Getenv: func(string) string { return "" }, Home: filepath.Join(dir, "home"), Dir: filepath.Join(dir, "project")}
}

// Every client's files are found, each is known again by its path, and none is another client's.
func TestEveryClientsFilesAreFound(t *testing.T) {
	for _, c := range known.All() {
		f := finderOf(t, c.ID)
		var found []string
		for _, file := range f.Files(c) {
			if strings.HasPrefix(file.Path, "/etc/") {
				continue
			}
			found = append(found, file.Path)
			again, err := f.Find(file.Path)
			if err != nil || len(again) != 1 || again[0].Client != c.ID || again[0].Format != file.Format || again[0].ReadOnly != file.ReadOnly {
				t.Errorf("by its path %+v is %+v (%v)", file, again, err)
			}
		}
		want := filesBelow(t, filepath.Dir(f.Home))
		slices.Sort(found)
		slices.Sort(want)
		if len(want) == 0 || !slices.Equal(found, want) {
			t.Errorf("%s: found %q, there are %q", c.ID, found, want)
		}
	}
}

func TestVariablesMoveDirectories(t *testing.T) {
	for variable, file := range map[string]string{
		"CODEX_HOME": "codex/config.toml", "CLAUDE_CONFIG_DIR": "claude-code/.claude.json",
		"HERMES_HOME": "hermes/config.yaml", "XDG_CONFIG_HOME": "goose/goose/config.yaml",
	} {
		client, file, _ := strings.Cut(file, "/")
		dir := t.TempDir()
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		f := known.Finder{Home: "/nonexistent/home", Dir: "/",
			Getenv: func(name string) string { return map[string]string{variable: dir}[name] }}
		if files, err := f.Find(client); err != nil || len(files) == 0 || files[0].Path != path {
			t.Errorf("%s: %+v, %v", variable, files, err)
		}
	}
}

// A project's files are looked for up to the top of its repository, and no further.
func TestProjectsEndAtTheirRepository(t *testing.T) {
	top := t.TempDir()
	below := filepath.Join(top, "repo", "a", "b")
	for _, dir := range []string{below, filepath.Join(top, "repo", ".git")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{top, filepath.Join(top, "repo"), below} {
		if err := os.WriteFile(filepath.Join(dir, ".mcp.json"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := known.Finder{Home: "/nonexistent/home", Dir: below, Getenv: func(string) string { return "" }}
	files, err := f.Find("claude-code")
	if err != nil || len(files) != 2 || files[0].Path != below+"/.mcp.json" || files[1].Path != top+"/repo/.mcp.json" {
		t.Errorf("%+v, %v", files, err)
	}
}

func reader(places []wrapping.Place) wrapping.Reader {
	return wrapping.Reader{
		Places: places,
		Exists: func(string) bool { return false },
		Starts: func(string) bool { return true },
		Operands: func(args []string) ([]string, error) {
			fs := flag.NewFlagSet("run", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			fs.String("name", "", "")
			err := fs.Parse(args)
			return fs.Args(), err
		},
	}
}

// Golden: a real file of every client is wrapped as expected, and unwrapped to the same bytes.
func TestGolden(t *testing.T) {
	ids := []string{"-"}
	for _, c := range known.All() {
		ids = append(ids, c.ID)
	}
	for _, id := range ids {
		f := finderOf(t, id)
		wrapped := 0
		for _, path := range filesBelow(t, filepath.Dir(f.Home)) {
			files, err := f.Find(path)
			if err != nil {
				t.Fatal(err)
			}
			if files[0].ReadOnly == "" {
				wrapped += golden(t, files[0])
			} else {
				wrapped++
			}
		}
		if wrapped == 0 {
			t.Errorf("%s: there is no server to wrap", id)
		}
	}
}

func golden(t *testing.T, f known.File) (wrapped int) {
	t.Helper()
	bare, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	r := reader(f.Places)
	all := func(string) bool { return true }
	d, err := splice.Parse(f.Format, bare)
	if err != nil {
		t.Fatalf("%s: %v", f.Path, err)
	}
	there := r.Wrap(d, nil, wrapping.Runner{Program: "/usr/local/bin/mcpscope"}, all)
	if *update {
		if err := os.WriteFile(f.Path+".wrapped", there.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(f.Path + ".wrapped"); err != nil || !bytes.Equal(there.Data, want) {
		t.Errorf("%s: %v\n%s\nwant\n%s", f.Path, err, there.Data, want)
	}
	if d, err = splice.Parse(f.Format, there.Data); err != nil {
		t.Fatalf("%s: %v", f.Path, err)
	}
	if back := r.Unwrap(d, bare, all); !bytes.Equal(back.Data, bare) {
		t.Errorf("%s does not come back", f.Path)
	}
	for _, changed := range there.Changed {
		if changed {
			wrapped++
		}
	}
	return wrapped
}
