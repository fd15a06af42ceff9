// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hierarchy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The kernel lists members of another pid namespace as 0, which would move the writer.
func TestNobodyIsPutBackByTheNumberZero(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cgroup.procs")
	for text, want := range map[string][]int{"": nil, "12\n0\n7\n": {7, 12}, "0\n": {}} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		b := WayBack{origin: -1, members: int(f.Fd())}
		if got := b.Members(); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		f.Close()
	}
}
