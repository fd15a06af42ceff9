// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// A server of the watcher before has no guard of its own, so nothing waits for a guard to exit. The
// control waits as long as that may take.
func TestDismissOfNoGuard(t *testing.T) {
	control := make(chan struct{})
	go func() {
		linux.AwaitWithin(-1, unix.POLLIN, policy.ReactWithin)
		close(control)
	}()
	dismissGuard(noGuard(nil))
	select {
	case <-control:
		t.Errorf("it took %v", policy.ReactWithin)
	default:
	}
}

// The guard of the start has ended with the watcher before, and its pid may be another process's.
func TestHeirHasNoGuard(t *testing.T) {
	p, errno := page.New()
	if errno != 0 {
		t.Fatal(errno)
	}
	defer p.Close()
	p.ByGuard.GuardPID = 77
	renumber(p, page.Kept{Memory: p.Memory, Payload: -1, Stdin: -1, Stdout: -1})
	if p.ByGuard.GuardPID != 0 {
		t.Errorf("the guard is %d still", p.ByGuard.GuardPID)
	}
}

// mapped counts the pages that this process has mapped.
func mapped(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("/memfd:"+page.FileName))
}

// newKept makes the page of a server, as the guard of a gateway keeps it for the next watcher.
func newKept(t *testing.T) (*page.Page, page.Kept) {
	t.Helper()
	p, errno := page.New()
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(p.Close)
	memory, err := unix.Dup(int(p.Memory))
	if err != nil {
		t.Fatal(err)
	}
	return p, page.Kept{Payload: -1, Memory: int32(memory), Stdin: -1, Stdout: -1}
}

func isOpen(fd int32) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// A server that this watcher can't go on with is the next watcher's, which needs its descriptors.
func TestRetakeThatFailsLeavesNothingOpen(t *testing.T) {
	hub, err := loop.NewHub()
	if err != nil {
		t.Fatal(err)
	}
	p, kept := newKept(t)
	if err := p.SetConfig([]byte("no configuration")); err != nil {
		t.Fatal(err)
	}
	before := mapped(t)
	if taken, err := (&Heir{Hub: hub}).Retake(kept); err == nil {
		t.Fatalf("it has taken %+v", taken)
	}
	if after := mapped(t); after != before {
		t.Errorf("%d pages are mapped, and before it were %d", after, before)
	}
	if !isOpen(kept.Memory) {
		t.Error("the next watcher does not get the page")
	}
	_ = unix.Close(int(kept.Memory)) // a copy
}

// Nothing is kept open of a server that was released.
func TestRetakeOfAReleasedServer(t *testing.T) {
	p, kept := newKept(t)
	p.ByWatcher.Released = true
	before := mapped(t)
	taken, err := (&Heir{}).Retake(kept)
	if taken != nil || err != nil {
		t.Fatalf("it has taken %+v: %v", taken, err)
	}
	if after := mapped(t); after != before {
		t.Errorf("%d pages are mapped, and before it were %d", after, before)
	}
	if isOpen(kept.Memory) {
		t.Error("the page is still open")
	}
}
