// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func appendTo(path string) error {
	fd, err := OpenAppend(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("line\n"))
	return err
}

func wantLine(t *testing.T, file string) {
	t.Helper()
	if text, err := os.ReadFile(file); err != nil || string(text) != "line\n" {
		t.Errorf("%s has %q (%v)", file, text, err)
	}
}

func TestFollowsWhatTheKernelFollows(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := errors.Join(os.MkdirAll(filepath.Join(real, "deep"), 0o700), os.Symlink("real", dir+"/link"), os.Symlink(dir+"/link/deep", dir+"/absolute"),
		os.Symlink("../real/deep/last", real+"/up"), os.Symlink("loop", dir+"/loop")); err != nil {
		t.Fatal(err)
	}
	for path, file := range map[string]string{
		"new": "new", "link/new": "real/new", "absolute/new": "real/deep/new", "link/../other": "other", ".//twice": "twice", "link/up": "real/deep/last",
	} {
		if err := appendTo(filepath.Join(dir, ".") + "/" + path); err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		wantLine(t, filepath.Join(dir, file))
	}
	for path, want := range map[string]error{
		"loop": unix.ELOOP, "none/new": unix.ENOENT, "new/below": unix.ENOTDIR, "real": unix.EISDIR, "real/": unix.ENOENT,
	} {
		if err := appendTo(dir + "/" + path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// A shell's process substitution and its kin: the link's text is no path.
func TestDescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	path := filepath.Join("/dev/fd", strconv.Itoa(int(w.Fd())))
	if err := appendTo(path); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if n, err := r.Read(buf); err != nil || string(buf[:n]) != "line\n" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// Whatever fs.protected_symlinks is, another user's link in a directory like /tmp leads nowhere.
func TestAnotherUsersLink(t *testing.T) {
	const nobody = 65533
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	shared := filepath.Join(dir, "shared")
	if err := errors.Join(os.Mkdir(target, 0o777), os.Mkdir(shared, 0o777), os.Chmod(shared, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	for name, leads := range map[string]string{"report": "../target/file", "dir": "../target"} {
		link := filepath.Join(shared, name)
		if err := errors.Join(os.Symlink(leads, link), os.Lchown(link, nobody, nobody)); err != nil {
			t.Skipf("needs root: %v", err)
		}
	}
	for _, path := range []string{"report", "dir/file"} {
		if err := appendTo(filepath.Join(shared, path)); !errors.Is(err, unix.EACCES) {
			t.Errorf("%s: %v, want %v", path, err, unix.EACCES)
		}
	}
	if made, _ := os.ReadDir(target); len(made) > 0 {
		t.Errorf("made %v", made)
	}
}
