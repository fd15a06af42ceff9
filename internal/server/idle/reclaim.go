// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reclaimStep takes about 20 ms: a message for the server can come meanwhile.
const reclaimStep = "4M"

// mapping is a range of addresses of a member.
type mapping struct {
	pid int
	at  unix.RemoteIovec
}

// Reclaim does nothing without swap: only file pages could be reclaimed then, and those of a runtime are
// shared. Ten servers gave nothing back.
func (s *Sleeper) Reclaim() bool {
	var of unix.Sysinfo_t
	if unix.Sysinfo(&of) != nil || of.Freeswap == 0 {
		return false
	}
	if counted := s.Group.Limits().MemoryGroup(); counted != nil {
		err := counted.Write("memory.reclaim", reclaimStep)
		if !errors.Is(err, unix.ENOENT) { // before Linux 5.19
			isLast := errors.Is(err, unix.EAGAIN) // the kernel has found less than that
			s.HasReclaimed = s.HasReclaimed || err == nil || isLast
			return err == nil
		}
	}
	if s.mappings == nil {
		pids, _ := s.Group.Payload.Members() // none: its directory was removed
		s.mappings = mappingsOf(pids)
	}
	if len(s.mappings) == 0 {
		return false
	}
	next := s.mappings[0]
	s.mappings = s.mappings[1:]
	errno := next.pageOut()
	s.HasReclaimed = s.HasReclaimed || errno == 0
	return errno != unix.EPERM && errno != unix.ENOSYS
}

// mappingsOf is never nil.
func mappingsOf(pids []int) []mapping {
	all := []mapping{}
	for _, pid := range pids {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)) // none: not ours
		for line := range strings.Lines(string(maps)) {           // "7f00-7f80 rw-p …"
			var from, to uint64
			_, err := fmt.Sscanf(line, "%x-%x r", &from, &to)
			if err == nil {
				all = append(all, mapping{pid, unix.RemoteIovec{Base: uintptr(from), Len: int(to - from)}})
			}
		}
	}
	return all
}

// pageOut needs CAP_SYS_NICE and the right to ptrace (Linux 5.10). Pages of a file that other processes map
// stay. EINVAL: it is no memory.
func (m *mapping) pageOut() unix.Errno {
	pidfd, _ := unix.PidfdOpen(m.pid, 0) // -1: it was killed; then EBADF
	_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(pidfd), uintptr(unsafe.Pointer(&m.at)), 1,
		unix.MADV_PAGEOUT, 0, 0)
	_ = unix.Close(pidfd)
	return errno
}
