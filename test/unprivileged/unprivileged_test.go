// SPDX-License-Identifier: Apache-2.0

//go:build linux

package unprivileged

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The process of the test has no right of root, a home to write to, and no group of root.
func TestRun(t *testing.T) {
	Run(t, func(t *testing.T) {
		locked := filepath.Join(t.TempDir(), "locked")
		if err := os.WriteFile(locked, nil, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(locked); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a file without rights can be read: %v", err)
		}
		if !Inside() {
			return // the groups and the home are those of an ordinary user
		}
		groups, err := os.Getgroups()
		if err != nil || len(groups) > 0 {
			t.Errorf("supplementary groups %d, %v", groups, err)
		}
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, "file"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
}

// A test that did not run does not count as one that passed.
func TestCheckOutput(t *testing.T) {
	for output, want := range map[string]string{
		"=== RUN   TestX\n--- PASS: TestX (0.00s)\nPASS\n":                                              "",
		"=== RUN   TestX\n--- SKIP: TestX (0.00s)\nPASS\n":                                              "a part of TestX was skipped as user 65534",
		"--- PASS: TestX (0.00s)\n    --- PASS: TestX/a (0.00s)\n    --- SKIP: TestX/b (0.00s)\nPASS\n": "a part of TestX was skipped as user 65534",
		"testing: warning: no tests to run\nPASS\n":                                                     "TestX did not run as user 65534",
		"=== RUN   TestXY\n--- PASS: TestXY (0.00s)\nPASS\n":                                            "TestX did not run as user 65534",
	} {
		got := ""
		if err := checkOutput("TestX", output); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
