// SPDX-License-Identifier: Apache-2.0

package configfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) *configfile.File {
	t.Helper()
	f, err := configfile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantText(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is %q (%v), want %q", path, got, err, want)
	}
}

func wantNames(t *testing.T, dir string, want int) {
	t.Helper()
	if all, err := os.ReadDir(dir); err != nil || len(all) != want {
		t.Errorf("%s has %v (%v), want %d names", dir, all, err, want)
	}
}

// backups returns an empty directory for backups, and the expected path of the backup of a file.
func backups(t *testing.T, path string) (configfile.Backups, string) {
	t.Helper()
	state := t.TempDir()
	return configfile.BackupsBelow(state), filepath.Join(state, "mcpscope/backups", path)
}

// Mode, owner and attributes stay, a link stays one, and the old content is in the backup.
func TestReplaceKeepsWhatIsNotContent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone changes owners and writes read-only files")
	}
	dir := t.TempDir()
	target, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	kept, backup := backups(t, target)
	write(t, target, "old", 0o640)
	if err := errors.Join(os.Chown(target, 1234, 2345), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(target, "user.mcpscope.test", []byte("x"), 0); err != nil {
		t.Logf("no attributes on this file system: %v", err)
	}
	if err := read(t, link).Replace([]byte("new"), []byte("old"), kept); err != nil {
		t.Fatal(err)
	}
	wantText(t, link, "new")
	wantText(t, backup, "old")
	wantNames(t, dir, 2)
	if files, err := kept.Files(); err != nil || !slices.Equal(files, []string{target}) {
		t.Errorf("wrapped are %q, %v", files, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link is %q, %v", to, err)
	}
	for path, mode := range map[string]uint32{target: 0o640, backup: 0o600} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Mode&0o7777 != mode || st.Uid != 1234 || st.Gid != 2345 {
			t.Errorf("%s: mode %o, owner %d:%d, %v", path, st.Mode, st.Uid, st.Gid, err)
		}
		value := make([]byte, 8)
		if n, err := unix.Getxattr(path, "user.mcpscope.test", value); path == target && !errors.Is(err, unix.ENOTSUP) && string(value[:max(n, 0)]) != "x" {
			t.Errorf("%s: attribute %q, %v", path, value, err)
		}
	}
	// Back again there is nothing left to keep.
	if err := read(t, link).Replace([]byte("old"), []byte("old"), kept); err != nil {
		t.Fatal(err)
	}
	wantText(t, target, "old")
	wantNames(t, filepath.Dir(filepath.Dir(string(kept))), 0)
	if files, err := kept.Files(); err != nil || len(files) > 0 {
		t.Errorf("wrapped are %q, %v", files, err)
	}
}

// A directory can have a default access list, which a new file inherits and the old one does not have.
func TestReplaceGivesNobodyAccess(t *testing.T) {
	const list = "system.posix_acl_access"
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	kept, _ := backups(t, path)
	write(t, path, "old", 0o640)
	// version 2; the owner, user 12345, the group, the mask and others: tag, rights, id
	entry := func(tag, rights uint16, id uint32) []byte {
		return binary.LittleEndian.AppendUint32([]byte{byte(tag), 0, byte(rights), 0}, id)
	}
	const none = 1<<32 - 1
	inherited := slices.Concat([]byte{2, 0, 0, 0}, entry(1, 6, none), entry(2, 6, 12345), entry(4, 4, none),
		entry(16, 6, none), entry(32, 0, none))
	if err := unix.Setxattr(dir, "system.posix_acl_default", inherited, 0); err != nil {
		t.Skip("the file system has no access lists: ", err)
	}
	if err := read(t, path).Replace([]byte("new"), []byte("old"), kept); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Getxattr(path, list, nil); !errors.Is(err, unix.ENODATA) {
		t.Errorf("an access list of %d bytes: %v", n, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o640 {
		t.Errorf("%v, %v", st, err)
	}
	// One that the old file has stays.
	if err := unix.Setxattr(path, list, inherited, 0); err != nil {
		t.Fatal(err)
	}
	if err := read(t, path).Replace([]byte("old"), []byte("old"), kept); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2*len(inherited))
	if n, err := unix.Getxattr(path, list, got); err != nil || !bytes.Equal(got[:n], inherited) {
		t.Errorf("the access list is %v (%v), was %v", got[:max(n, 0)], err, inherited)
	}
}

func TestWhatSomebodyElseChangedStays(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"written": func(path string) error { return os.WriteFile(path, []byte("theirs"), 0) },
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".theirs", []byte("theirs"), 0o600), os.Rename(path+".theirs", path))
		},
		"replaced by the same": func(path string) error {
			return errors.Join(os.WriteFile(path+".theirs", []byte("old"), 0o600), os.Rename(path+".theirs", path))
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		kept, _ := backups(t, path)
		write(t, path, "old", 0o600)
		f := read(t, path)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		now, _ := os.ReadFile(path)
		if err := f.Replace([]byte("ours"), []byte("old"), kept); !errors.Is(err, configfile.ErrChanged) {
			t.Errorf("%s: %v", what, err)
		}
		wantText(t, path, string(now))
		wantNames(t, dir, 1)
	}
}

// A backup that is a link to somewhere is neither replaced nor followed, and without a backup nothing is changed.
func TestBackupIsNoWayOut(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	kept, backup := backups(t, path)
	write(t, path, "old", 0o600)
	write(t, other, "precious", 0o600)
	if err := errors.Join(os.MkdirAll(filepath.Dir(backup), 0o700), os.Symlink(other, backup)); err != nil {
		t.Fatal(err)
	}
	if err := read(t, path).Replace([]byte("new"), []byte("old"), kept); !errors.Is(err, atomicfile.ErrNotRegular) {
		t.Error(err)
	}
	wantText(t, other, "precious")
	wantText(t, path, "old")
}

func TestObstacles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone changes owners and writes read-only files")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, "", 0o400)
	if got := read(t, path).Obstacle(); got != "it is read-only" {
		t.Errorf("%q", got)
	}
	write(t, path, "", 0o600)
	if err := os.Link(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path).Obstacle(); got != "it has 2 names (hard links), and would keep one of them" {
		t.Errorf("%q", got)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", ""} {
		if _, err := configfile.Read(filepath.Join(dir, name)); err == nil {
			t.Errorf("%q was read", name)
		}
	}
}

// A file is read whole or not at all: a write would lose the rest.
func TestLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "", 0o600)
	for size, want := range map[int64]string{64 << 20: "", 64<<20 + 1: "it is larger than 64 MiB"} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		f, err := configfile.Read(path)
		if text := fmt.Sprint(err); err != nil && text != want || (err == nil) != (want == "") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err == nil && int64(len(f.Data)) != size {
			t.Errorf("%d of %d bytes were read", len(f.Data), size)
		}
	}
}

// Another user's backups are reported, and hide none of the others.
func TestUnreadableBackups(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		kept, backup := backups(t, path)
		write(t, path, "old", 0o600)
		if err := read(t, path).Replace([]byte("new"), []byte("old"), kept); err != nil {
			t.Fatal(err)
		}
		locked := filepath.Join(string(kept), "locked")
		if err := os.Mkdir(locked, 0); err != nil {
			t.Fatal(err)
		}
		if files, unreadable := kept.Files(); !slices.Equal(files, []string{path}) || len(unreadable) != 1 {
			t.Errorf("%q, %v", files, unreadable)
		}
		if err := os.Chmod(backup, 0); err != nil {
			t.Fatal(err)
		}
		if data, err := kept.Of(read(t, path)); err == nil {
			t.Errorf("%q", data)
		}
	})
}

// A file that could not be written keeps no backup of it: nothing is wrapped.
func TestABackupGoesIfTheFileCannotBeWritten(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		kept, _ := backups(t, path)
		write(t, path, "old", 0o600)
		f := read(t, path)
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if err := f.Replace([]byte("new"), []byte("old"), kept); err == nil {
			t.Error("it was written")
		}
		if files, _ := kept.Files(); len(files) > 0 {
			t.Errorf("there is a backup: %q", files)
		}
		if err := os.Chmod(dir, 0o700); err != nil { // the test removes it
			t.Fatal(err)
		}
	})
}

// A command that is refused leaves the backup of the command that came before it.
func TestTheBackupOfAnotherCommandStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	kept, backup := backups(t, path)
	write(t, path, "old", 0o600)
	late := read(t, path)
	write(t, path, "edited", 0o600)
	if err := read(t, path).Replace([]byte("wrapped"), []byte("edited"), kept); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"late", "old"} {
		if err := late.Replace([]byte(data), []byte("old"), kept); !errors.Is(err, configfile.ErrChanged) {
			t.Errorf("error %v", err)
		}
		wantText(t, backup, "edited")
		wantText(t, path, "wrapped")
	}
}

// Root can have a user's HOME: then the user has to be able to change the backups.
func TestDirectoriesOfBackupsHaveTheOwnerOfTheHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone changes owners")
	}
	home := t.TempDir()
	path := filepath.Join(home, "file")
	write(t, path, "old", 0o600)
	if err := os.Chown(home, 1234, 2345); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(home, ".local", "state")
	kept := configfile.BackupsBelow(state)
	if err := read(t, path).Replace([]byte("new"), []byte("old"), kept); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(kept.Path(read(t, path))); dir != home; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil || st.Uid != 1234 || st.Gid != 2345 {
			t.Errorf("%s belongs to %d:%d (%v)", dir, st.Uid, st.Gid, err)
		}
	}
}
