// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pages of a file need no swap.
func TestPageOut(t *testing.T) {
	const size = 4 << 20
	f, err := os.CreateTemp("/var/tmp", "mcpscope-") // tmpfs would need swap
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_ = os.Remove(f.Name())
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil { // dirty pages stay
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	resident := func() uint64 {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "\nRssFile:")
		var kb uint64
		if _, err := fmt.Sscan(rest, &kb); err != nil {
			t.Fatal(err)
		}
		return kb << 10
	}
	before := resident()
	for _, m := range mappingsOf([]int{os.Getpid()}) {
		if m.at.Base == uintptr(unsafe.Pointer(&memory[0])) {
			switch errno := m.pageOut(); errno {
			case 0:
			case unix.EPERM:
				t.Skip("SKIP: process_madvise needs CAP_SYS_NICE")
			default:
				t.Fatalf("process_madvise: %v", errno)
			}
		}
	}
	if after := resident(); before < size || after > before-size/2 {
		t.Errorf("resident: %d bytes, and %d afterwards", before, after)
	}
}
