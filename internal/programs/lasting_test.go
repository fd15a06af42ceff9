// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The name in PATH is written if it is the same file: an upgrade changes the link, and removes the file.
func TestLastingName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Cellar/0.1.0/mcpscope")
	link := filepath.Join(dir, "bin/mcpscope")
	err := errors.Join(
		os.MkdirAll(filepath.Dir(file), 0o700), os.MkdirAll(filepath.Dir(link), 0o700),
		os.WriteFile(file, nil, 0o700), os.Symlink("../Cellar/0.1.0/mcpscope", link))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(link))
	if got := LastingName(file); got != link {
		t.Errorf("%s, want %s", got, link)
	}
	other := filepath.Join(dir, "mcpscope")
	if err := os.WriteFile(other, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := LastingName(other); got != other {
		t.Errorf("another file: %s, want %s", got, other)
	}
	t.Setenv("PATH", "")
	if got := LastingName(file); got != file {
		t.Errorf("not in PATH: %s, want %s", got, file)
	}
}

// A program that was built in a clone is found through a link, too. Another repository is no clone.
func TestFindSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	clone := filepath.Join(dir, "src")
	write("src/go.mod", "module github.com/mcpscope/mcpscope\n\ngo 1.26\n")
	built := write("src/bin/mcpscope", "")
	link := filepath.Join(dir, "mcpscope")
	if err := os.Symlink(built, link); err != nil {
		t.Fatal(err)
	}
	write("other/go.mod", "module github.com/mcpscope/mcpscope-extras\n")
	for program, want := range map[string]string{
		built: clone, link: clone, filepath.Join(dir, "none"): "",
		write("other/bin/mcpscope", ""): "", write("nvm/bin/mcpscope", ""): "",
	} {
		if got := FindSource(program); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}

func TestIsTemporary(t *testing.T) {
	t.Setenv("TMPDIR", "/scratch")
	for path, want := range map[string]bool{
		"/usr/bin/mcpscope": false, "/tmp/mcpscope": true, "/var/tmp/x/mcpscope": true, "/scratch/mcpscope": true,
		"/tmpfs/mcpscope": false, "/home/a/.cache/go-build/1/mcpscope": true,
	} {
		if got := isTemporary(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
