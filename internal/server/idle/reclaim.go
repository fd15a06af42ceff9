// SPDX-License-Identifier: Apache-2.0

//go:build linux

package idle

import (
	"bufio"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
)

// Reclaim gives the memory of a frozen group back, in steps: its caller has other events to react to, a
// message for the server above all.
type Reclaim struct {
	counted *cgroup.Group // nil if memory is paged out process by process
	steps   uint64
	pids    []int
	maps    *os.File // of the present process, nil for none
	lines   *bufio.Scanner
	pidfd   int
}

const (
	reclaimStep = 4 << 20  // takes about 20 ms
	pageStep    = 32 << 20 // of addresses, most of which have no page
)

// NewReclaim is nil if nothing can be reclaimed. Without swap only file pages could be, and those of a
// runtime are shared: ten servers gave nothing back. counted has the memory of the members, and may be nil.
func NewReclaim(counted *cgroup.Group, pids []int) *Reclaim {
	var of unix.Sysinfo_t
	if unix.Sysinfo(&of) != nil || of.Freeswap == 0 {
		return nil
	}
	if counted != nil && unix.Faccessat(counted.FD(), "memory.reclaim", unix.W_OK, 0) == nil {
		now, _ := counted.Number("memory.current") // 0 is one step
		return &Reclaim{counted: counted, steps: now/reclaimStep + 1}
	}
	return &Reclaim{pids: pids}
}

// Step does a part of it, and returns false after the last one.
func (r *Reclaim) Step() bool {
	if r.counted != nil {
		r.steps--
		err := r.counted.Write("memory.reclaim", fmt.Sprint(reclaimStep))
		return err == nil && r.steps > 0 // EAGAIN: the kernel finds no more
	}
	for length := uintptr(0); length < pageStep; {
		if r.maps == nil && !r.next() {
			return false
		}
		if !r.lines.Scan() {
			r.Close()
			continue
		}
		var from, to uintptr
		var mode string
		if n, _ := fmt.Sscanf(r.lines.Text(), "%x-%x %s", &from, &to, &mode); n < 3 || mode[0] != 'r' {
			continue
		}
		region := [2]uintptr{from, to - from}
		_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(r.pidfd), uintptr(unsafe.Pointer(&region)), 1,
			unix.MADV_PAGEOUT, 0, 0)
		if errno == unix.EPERM || errno == unix.ENOSYS { // without CAP_SYS_NICE, and before Linux 5.10
			r.Close()
			return false
		}
		length += region[1]
	}
	return true
}

// next opens the next process.
func (r *Reclaim) next() bool {
	for len(r.pids) > 0 {
		pid := r.pids[0]
		r.pids = r.pids[1:]
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if r.maps, err = os.Open(fmt.Sprintf("/proc/%d/maps", pid)); err == nil {
			r.pidfd, r.lines = fd, bufio.NewScanner(r.maps)
			return true
		}
		_ = unix.Close(fd) // a pidfd has nothing to flush
	}
	return false
}

// Close ends it.
func (r *Reclaim) Close() {
	if r.maps != nil {
		_ = r.maps.Close()      // read only
		_ = unix.Close(r.pidfd) // a pidfd has nothing to flush
		r.maps = nil
	}
}
