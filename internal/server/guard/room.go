// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// HasProcesses reports whether this process may start a Go runtime, which aborts if it gets no thread. It
// tries that where the user's limit of processes may have been reached. It needs no Go runtime itself.
func HasProcesses() bool {
	const needed, reserve = 4, 16
	limit := unix.Rlimit{}
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, 0, uintptr(unsafe.Pointer(&limit)), 0)
	host := unix.Sysinfo_t{}
	sys(unix.SYS_SYSINFO, uintptr(unsafe.Pointer(&host)), 0, 0, 0, 0)
	if limit.Cur >= uint64(host.Procs)+reserve { // Procs counts those of all users
		return true
	}
	ends := [2]int32{}
	if _, e := sys(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&ends)), unix.O_CLOEXEC, 0, 0, 0); e != 0 {
		return true // the lack of descriptors is reported by others
	}
	pids := [needed]uintptr{}
	forked := 0
	for forked < needed {
		pid, e := sys(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0)
		if e != 0 {
			break
		}
		if pid == 0 {
			waitForEnd(&ends)
		}
		pids[forked] = pid
		forked++
	}
	closeFD(ends[0])
	closeFD(ends[1]) // they exit
	for _, pid := range pids[:forked] {
		sys(unix.SYS_WAIT4, pid, 0, 0, 0, 0)
	}
	return forked == needed
}

// HasAddressSpace is HasProcesses for RLIMIT_AS: a Go runtime reserves 0.7 GB.
func HasAddressSpace() bool { return mayHave(unix.RLIMIT_AS, 1<<30) }

// HasData is HasProcesses for RLIMIT_DATA.
func HasData() bool { return mayHave(unix.RLIMIT_DATA, 64<<20) }

func mayHave(resource uintptr, needed uint64) bool {
	limit := unix.Rlimit{}
	sys(unix.SYS_PRLIMIT64, 0, resource, 0, uintptr(unsafe.Pointer(&limit)), 0)
	return limit.Cur >= needed
}

// waitForEnd is such a process.
func waitForEnd(ends *[2]int32) {
	closeFD(ends[1])
	text := [1]byte{}
	sys(unix.SYS_READ, uintptr(ends[0]), uintptr(unsafe.Pointer(&text)), 1, 0, 0)
	exit(0)
}
