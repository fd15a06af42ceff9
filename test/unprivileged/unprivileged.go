// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package unprivileged runs a test without the rights of root, also where root runs the tests. Such a test expects
// that the kernel refuses something, and the kernel refuses root nothing.
package unprivileged

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// userID is the overflow id of the kernel, as user and as group. It owns no files.
const userID = 65534

// marker is set in the environment of a process that Run has started.
const marker = "UNPRIVILEGED_TEST"

// Inside reports whether Run has started this process. A TestMain must not set up again what Run has copied.
func Inside() bool { return os.Getenv(marker) != "" }

// Run runs the rest of a test. An ordinary user's process just calls it. Root's process executes the test binary
// once more for this test alone, as another user, and logs its output. A copy of the test binary is executed, as
// that user cannot search the directory of the go tool. beside are the names of programs that the test expects in
// the directory of its binary.
//
// The test must be no subtest, and it fails if any part of it is skipped.
func Run(t *testing.T, test func(t *testing.T), beside ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	dir := makeDirectory(t)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{filepath.Base(binary)}, beside...) {
		err := copyProgram(filepath.Join(filepath.Dir(binary), name), filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
	}
	pattern := "^" + regexp.QuoteMeta(t.Name()) + "$"
	cmd := exec.Command(filepath.Join(dir, filepath.Base(binary)), "-test.v", "-test.run="+pattern)
	if end, ok := t.Deadline(); ok {
		// The process ends first, so its output shows where it waits.
		limit := time.Until(end) * 9 / 10
		cmd.Args = append(cmd.Args, "-test.timeout="+limit.String())
	}
	home := filepath.Join(dir, "home")
	cmd.Env = []string{marker + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: userID, Gid: userID}}
	output, err := cmd.CombinedOutput()
	t.Logf("as user %d:\n%s", userID, output)
	if err != nil {
		t.Fatalf("run the test as user %d: %v", userID, err)
	}
	if err := checkOutput(t.Name(), string(output)); err != nil {
		t.Fatal(err)
	}
}

// makeDirectory makes a directory that every user can search, with a home for the user of the test.
func makeDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "unprivileged") // t.TempDir is below a directory of root alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	home := filepath.Join(dir, "home")
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, userID, userID))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyProgram copies a file that every user may execute then.
func copyProgram(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Chmod(0o755), target.Close())
}

// checkOutput returns an error unless the output is that of a test that has run as a whole. A test binary also
// succeeds if it finds no test, or if the test is skipped.
func checkOutput(name, output string) error {
	if strings.Contains(output, "--- SKIP: ") {
		return fmt.Errorf("a part of %s was skipped as user %d", name, userID)
	}
	if !strings.Contains(output, "--- PASS: "+name+" ") {
		return fmt.Errorf("%s did not run as user %d", name, userID)
	}
	return nil
}
