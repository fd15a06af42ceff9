// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// Ends: the client sees the status or the signal that the main process ended with, and of a
// core dump that one alone.
func Ends(t *testing.T, s Subject) {
	t.Run("statuses and signals", func(t *testing.T) {
		t.Parallel()
		site := s.Site(t)
		client := site.Unique("client")
		want := map[string]unix.WaitStatus{}
		for _, status := range []int{0, 1, 2, 3, 64, 77, 124, 125, 126, 127, 128, 129, 137, 143, 254, 255} {
			want[fmt.Sprint("exit ", status)] = unix.WaitStatus(status << 8)
		}
		for _, sig := range []unix.Signal{1, 2, 3, 6, 9, 10, 11, 13, 14, 15, 24, 31, 34, 64} {
			want[fmt.Sprintf("ulimit -c 0; kill -%d $$", sig)] = unix.WaitStatus(sig)
		}
		for script, status := range want {
			e, err := run(site, client, nil, s.contained().line("sh", "-c", script))
			if err != nil || unix.WaitStatus(e.status)&^coreDumped != status {
				t.Errorf("%q became %#x, %v; want %#x", script, e.status, err, status)
			}
		}
	})
	t.Run("core dump", func(t *testing.T) {
		t.Parallel()
		bed.Require(t, coreFiles)
		site, dir := s.Site(t), openDir(t)
		line := append([]string{s.Programs.Wear, "directory", dir, "limit", fmt.Sprint(unix.RLIMIT_CORE), "100000000", "100000000", "--"},
			s.contained().line("sh", "-c", "kill -SEGV $$")...)
		e, err := run(site, site.Unique("client"), nil, line)
		// Dumps of one name replace each other, so a second one would not be counted.
		if err != nil || e.status.Signal() != unix.SIGSEGV || e.status.CoreDump() {
			t.Errorf("ended with %v, %v", e.status, err)
		}
		if found, _ := filepath.Glob(dir + "/core*"); len(found) != 1 { // the pattern is valid
			t.Errorf("%d core dumps: %q", len(found), found)
		}
	})
	t.Run("alarm", func(t *testing.T) {
		t.Parallel()
		site := s.Site(t)
		line := append([]string{s.Programs.Wear, "alarm", "1", "--"}, s.contained().line("sleep", "1000")...)
		if e, err := run(site, site.Unique("client"), nil, line); err != nil || e.status.Signal() != unix.SIGALRM {
			t.Errorf("ended with %v, %v", e.status, err)
		}
	})
}

const coreDumped = 0x80

// coreFiles: where a program takes the dumps this process can't tell whose they were.
var coreFiles = bed.Feature{Name: "core dumps in the working directory", Missing: func() error {
	text, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err == nil && !strings.HasPrefix(string(text), "core") {
		err = fmt.Errorf("core_pattern is %q", text)
	}
	return err
}}

// openDir is a directory that any user may write.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "transparent.")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // in the temporary directory
	return dir
}
