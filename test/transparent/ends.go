// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// Ends: the client sees the status or the signal that the main process ended with, and of a
// core dump the main process alone.
func Ends(t *testing.T, s Subject) {
	t.Run("statuses and signals", func(t *testing.T) {
		t.Parallel()
		site := s.Site(t)
		client := site.Unique("client")
		want := map[string]unix.WaitStatus{}
		for _, status := range []int{0, 1, 77, 124, 125, 126, 127, 128, 129, 137, 255} {
			want[fmt.Sprint("exit ", status)] = unix.WaitStatus(status << 8)
		}
		for _, sig := range []unix.Signal{1, 2, 3, 6, 9, 11, 13, 14, 15, 31, 34, 64} {
			want[fmt.Sprintf("ulimit -c 0; kill -%d $$", sig)] = unix.WaitStatus(sig)
		}
		for script, status := range want {
			if o := run(site, client, s.contained().line("sh", "-c", script)); unix.WaitStatus(o.Status)&^coreDumped != status {
				t.Errorf("%q became %#x, want %#x", script, o.Status, status)
			}
		}
	})
	t.Run("core dump", func(t *testing.T) {
		t.Parallel()
		bed.Require(t, coreFiles)
		site := s.Site(t)
		dir := escape.OpenDir(t)
		line := append([]string{s.Programs.Wear, "directory", dir, "limit", fmt.Sprint(unix.RLIMIT_CORE), "100000000", "100000000", "--"},
			s.contained().line("sh", "-c", "kill -SEGV $$")...)
		// Dumps of one name replace each other, so a second one would not be counted.
		if o := run(site, site.Unique("client"), line); o.Status.Signal() != unix.SIGSEGV || o.Status.CoreDump() {
			t.Errorf("ended with %v", o.Status)
		}
		if found, _ := filepath.Glob(dir + "/core*"); len(found) != 1 { // the pattern is valid
			t.Errorf("%d core dumps: %q", len(found), found)
		}
	})
	t.Run("alarm", func(t *testing.T) {
		t.Parallel()
		site := s.Site(t)
		// Until the launcher catches signals, Go's runtime drops SIGALRM. At a load of 80 a start took longer than 1 s.
		line := append([]string{s.Programs.Wear, "alarm", "10", "--"}, s.contained().line("sleep", "1000")...)
		if o := run(site, site.Unique("client"), line); o.Status.Signal() != unix.SIGALRM {
			t.Errorf("ended with %v", o.Status)
		}
	})
}

const coreDumped = 0x80

// coreFiles: where a program takes the dumps, this process cannot find their source.
var coreFiles = bed.Feature{Name: "core dumps in the working directory", Missing: func() error {
	text, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err == nil && !strings.HasPrefix(string(text), "core") {
		err = fmt.Errorf("core_pattern is %q", text)
	}
	return err
}}

// program is one that the tests start.
func program(name string) bed.Feature {
	return bed.Feature{Name: name + " in PATH", Missing: func() error {
		_, err := exec.LookPath(name)
		return err
	}}
}
