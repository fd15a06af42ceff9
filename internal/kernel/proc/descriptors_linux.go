// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// pidfdThread is PIDFD_THREAD of pidfd_open(2), Linux 6.9.
const pidfdThread = unix.O_EXCL

// GetDescriptor duplicates a descriptor of a process: pidfd_getfd(2), Linux 5.6. If the first thread has
// exited alone, the pidfd has no descriptors any more, and GetDescriptor uses another thread (Linux 6.9).
func GetDescriptor(pid, pidfd, number int) (fd int, err error) {
	if fd, err = unix.PidfdGetfd(pidfd, number, 0); err == nil {
		return fd, nil
	}
	for _, tid := range threadsLeft(pid) {
		thread, failed := unix.PidfdOpen(tid, pidfdThread)
		if failed != nil {
			continue // it has exited, or this kernel is older
		}
		fd, failed = unix.PidfdGetfd(thread, number, 0)
		_ = unix.Close(thread) // a pidfd
		if failed == nil {
			return fd, nil
		}
	}
	return -1, err
}

// DescriptorPath returns the file of a process's descriptor in /proc. If the first thread has exited alone,
// it is that of another thread.
func DescriptorPath(pid, number int) string {
	if left := threadsLeft(pid); len(left) > 0 {
		return fmt.Sprintf("/proc/%d/task/%d/fd/%d", pid, left[0], number)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", pid, number)
}

// threadsLeft lists the threads of a process whose first thread has exited alone; for others it returns nil.
func threadsLeft(pid int) []int {
	if st, err := ReadStat(pid); err != nil || st.State != 'Z' || st.Threads < 2 {
		return nil
	}
	tids, _ := threads(pid) // none, if it has ended
	return slices.DeleteFunc(tids, func(tid int) bool { return tid == pid })
}
