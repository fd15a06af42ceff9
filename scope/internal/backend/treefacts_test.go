// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"os"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// A supervisor that is looking at another one has that one's facts open, too, perhaps at a lower
// descriptor than its own.
func TestWhoLooksAtAnotherIsFound(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/self/comm", []byte(protocol.CommOfGuards), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile("/proc/self/comm", comm, 0) })
	other, own := treeFacts{ID: "another", Supervisor: 1}, treeFacts{ID: "own", Supervisor: os.Getpid()}
	for _, facts := range append(slices.Repeat([]treeFacts{other}, 10), own, other) { // descriptors are listed in the order of their texts
		f, err := newFactsFile()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		if err := f.writeFacts(facts); err != nil {
			t.Fatal(err)
		}
	}
	tree := OpenTree(os.Getpid(), os.Getuid())
	if tree == nil {
		t.Fatal("not found")
	}
	defer tree.Close()
	if tree.Facts.ID != "own" {
		t.Errorf("the facts of %s", tree.Facts.ID)
	}
}
