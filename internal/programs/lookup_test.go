// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	bin := filepath.Join(dir, "bin")
	later := filepath.Join(dir, "later")
	for _, d := range []string{empty, bin, later, filepath.Join(bin, "folder")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, mode := range map[string]os.FileMode{"bin/good": 0o755, "bin/plain": 0o644, "bin/both": 0o644, "later/both": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(bin)
	path := empty + ":/nonexistent:" + bin + ":" + later
	for _, c := range []struct {
		command, path, want string
		errno               unix.Errno
	}{
		{"good", path, bin + "/good", 0},
		{"good", "", "./good", 0},
		{"both", path, later + "/both", 0}, // not executable here, so the search goes on
		{"plain", path, "", unix.EACCES},
		{"folder", path, "", unix.EISDIR},
		{"missing", path, "", unix.ENOENT},
		{"", path, "", unix.ENOENT},
		{bin, path, "", unix.EISDIR},
		{"./good/x", path, "", unix.ENOTDIR},
	} {
		t.Setenv("PATH", c.path)
		if got, err := Lookup(c.command); got != c.want || !errors.Is(err, c.errno) && c.errno != 0 || (err == nil) != (c.errno == 0) {
			t.Errorf("%q in %q: %q, %v; want %q, %v", c.command, c.path, got, err, c.want, c.errno)
		}
	}
}
