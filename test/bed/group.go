// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// point is the cgroup2 mount of the sandbox.
func point() string {
	if os.Getenv(LayoutEnv) == "hybrid" {
		return filepath.Join(cgroupPoint, "unified")
	}
	return cgroupPoint
}

// Root is the directory of the sandbox's own group: the root of the hierarchy,
// for everything that runs inside.
func Root(tb testing.TB) string {
	tb.Helper()
	if os.Getenv(stageEnv) == "" {
		tb.Fatal("this package's TestMain does not call bed.Main")
	}
	return point()
}

var groups atomic.Int32

// Group makes a new group in the sandbox. At the end of the test all that is in
// it or below it is killed, and it is removed. No name comes twice: a group that
// was killed once kills what is born in it later, on kernels from 6.18 on.
func Group(tb testing.TB, name string) string {
	tb.Helper()
	dir := filepath.Join(Root(tb), fmt.Sprintf("%s.%d", name, groups.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatalf("create group: %v", err)
	}
	tb.Cleanup(func() {
		if err := Destroy(dir); err != nil {
			tb.Errorf("remove group: %v", err)
		}
	})
	return dir
}

// Delegate gives a group to a user in the way of Delegate=yes, with the files by which one makes groups below and moves
// processes into it.
func Delegate(dir string, uid int) error {
	for _, file := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(dir, file), uid, uid); err != nil {
			return fmt.Errorf("delegate: %w", err)
		}
	}
	return nil
}

// Pipe returns the ends of a pipe, which are closed with the test at the latest.
func Pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		read.Close()
		write.Close()
	})
	return read, write
}
