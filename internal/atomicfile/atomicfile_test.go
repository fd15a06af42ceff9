// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func TestWriteKeepsTheModeWhateverTheUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"one", "two"} {
		if err := Write(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		st, statErr := os.Stat(path)
		if err := errors.Join(err, statErr); err != nil || string(got) != content || st.Mode() != 0o644 {
			t.Errorf("%q, %v: %v", got, st, err)
		}
	}
}

// interrupted is set for a process that gets a signal while it writes the file of that name.
const interrupted = "TESTS_INTERRUPTED"

// A signal waits until the new file has the name, and ends the process then.
func TestSignalLeavesNoTemporaryFile(t *testing.T) {
	if path := os.Getenv(interrupted); path != "" {
		_ = WriteAs(path, []byte("new"), func(*os.File) error { return unix.Kill(os.Getpid(), unix.SIGINT) }, func() error { return nil })
		select {} // until the signal
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	cmd := exec.Command(os.Args[0], "-test.run=^TestSignalLeavesNoTemporaryFile$")
	cmd.Env = append(os.Environ(), interrupted+"="+path)
	err := cmd.Run()
	if ended, is := errors.AsType[*exec.ExitError](err); !is || ended.Sys().(syscall.WaitStatus).Signal() != unix.SIGINT {
		t.Errorf("it ended with %v", err)
	}
	if got, err := os.ReadFile(path); string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if all, err := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// Programs that have a device, a FIFO or a socket open would go on with it, and nobody would see the new file. A
// symbolic link is the decision of a person.
func TestOnlyOrdinaryFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	aim := filepath.Join(dir, "aim")
	if err := os.WriteFile(aim, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink(aim, path) },
		"device":    func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, 1<<8|3) }, // null(4)
		"socket":    func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(dir, name)
		if err := make(path); err != nil {
			t.Logf("SKIP: %s: %v", name, err)
			continue
		}
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(path, []byte("new"), 0o600); err == nil {
			t.Errorf("%s: it was written", name)
		}
		after, err := os.Lstat(path)
		if err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: it is %v now (%v)", name, after, err)
		}
	}
	if got, err := os.ReadFile(aim); string(got) != "old" {
		t.Errorf("the target of the link is %q (%v)", got, err)
	}
}

// Whatever fails, the old file stays and nothing is left beside it.
func TestFailureLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Write(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no")
	fine := func() error { return nil }
	fails := func() error { return failure }
	for _, err := range []error{
		WriteAs(path, []byte("new"), func(*os.File) error { return failure }, fine),
		WriteAs(path, []byte("new"), func(*os.File) error { return nil }, fails),
	} {
		if !errors.Is(err, failure) {
			t.Errorf("%v", err)
		}
	}
	for _, target := range []string{dir, filepath.Join(path, "below"), filepath.Join(dir, "none", "file")} {
		if err := Write(target, nil, 0o644); err == nil {
			t.Errorf("%s was written", target)
		}
	}
	if got, err := os.ReadFile(path); string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	if all, err := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// A directory that cannot be read cannot be synchronized: that is said before the file is replaced.
func TestADirectoryThatCannotBeRead(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		if err := Write(path, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o300); err != nil {
			t.Fatal(err)
		}
		err := Write(path, []byte("new"), 0o644)
		got, readErr := os.ReadFile(path)
		if err == nil || readErr != nil || string(got) != "old" {
			t.Errorf("%v, and the file has %q (%v)", err, got, readErr)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if all, err := os.ReadDir(dir); len(all) != 1 {
			t.Errorf("%v, %v", all, err)
		}
	})
}
