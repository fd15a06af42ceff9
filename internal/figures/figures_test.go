// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/groups"
)

func TestMain(m *testing.M) { bed.Main(m) }

// The figures are those of the kernel's files. Without a controller a figure is absent, and not 0.
func TestFiguresAreTheKernels(t *testing.T) {
	group := groups.Directory(t)
	groups.Member(t, group)
	dir := group.Path()
	var cpu CPU
	var user, system uint64
	for changed := true; changed; { // until the member sleeps
		before := value(t, dir, "cpu.stat", "usage_usec")
		user = value(t, dir, "cpu.stat", "user_usec")
		system = value(t, dir, "cpu.stat", "system_usec")
		var err error
		if cpu, err = ReadCPU(dir); err != nil {
			t.Fatal(err)
		}
		changed = value(t, dir, "cpu.stat", "usage_usec") != before
	}
	if cpu.User != seconds(user) || cpu.System != seconds(system) {
		t.Errorf("%+v, want %d and %d us", cpu, user, system)
	}
	if limited := exists(dir, "cpu.max"); (cpu.Throttled != nil) != limited {
		t.Errorf("throttled %v, with cpu.max: %v", cpu.Throttled, limited)
	}
	memory, err := ReadMemory(dir)
	if !exists(dir, "memory.stat") {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without the memory controller: %+v, %v", memory, err)
		}
		return
	}
	if want := value(t, dir, "memory.stat", "anon"); err != nil || memory.Anonymous != want {
		t.Errorf("%d bytes anonymous, want %d (%v)", memory.Anonymous, want, err)
	}
	if want := value(t, dir, "memory.stat", "file"); memory.Files != want {
		t.Errorf("%d bytes of files, want %d", memory.Files, want)
	}
	if exists(dir, "memory.swap.current") != (memory.Swapped != nil) {
		t.Errorf("swapped: %v", memory.Swapped)
	}
}

// A group that was removed is an error, as for a server that has just ended.
func TestNoGroup(t *testing.T) {
	if c, err := ReadCPU(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v, %v", c, err)
	}
}

func value(t *testing.T, dir, file, key string) (n uint64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, key+" %d", &n); err == nil {
			return n
		}
	}
	t.Fatalf("%s has no %s", file, key)
	return 0
}
