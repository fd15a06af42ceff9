// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// Names are others' bytes, and come back as they were.
func TestTreeFactsComeBack(t *testing.T) {
	policy := protocol.DefaultPolicy()
	policy.MaxLifetime = time.Hour
	for _, f := range []treeFacts{
		{Policy: protocol.DefaultPolicy(), Started: time.Unix(0, 0).UTC()},
		{Version: 1, ID: "abcdefgh", Name: "a\nb=\"c\" \xff", Supervisor: 7, Launcher: "1 2", Started: time.Unix(1700000000, 5).UTC(), Policy: policy,
			Client: protocol.ClientFacts{PID: 9, Start: 10, Name: "its\n name=", Unit: "u.service"}},
	} {
		if got, err := parseTreeFacts(f.String()); err != nil || got != f {
			t.Errorf("%+v, %v, want %+v", got, err, f)
		}
	}
	if f, err := parseTreeFacts(treeFacts{ID: "x", Policy: policy}.String() + "later={}\n"); err != nil || f.ID != "x" {
		t.Errorf("what another version says: %+v, %v", f, err)
	}
	for _, text := range []string{"", "{}", "id=x", "version=\"1\"\n"} {
		if f, err := parseTreeFacts(text); err == nil {
			t.Errorf("%q is %+v", text, f)
		}
	}
}

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
