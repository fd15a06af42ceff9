// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// setLimits sets the limits of a group that has no member yet. In directories above the group that main has
// not prepared it enables their controllers. After an error, failed says which limit it is.
func setLimits(payload int32, limits *page.Limits, failed *page.Failure, buf *[512]byte) syscall.Errno {
	hasMemory := false
	at := uint32(0)
	for {
		failed.Limit = at
		file, value := limits.Next(&at)
		if file == "" {
			break
		}
		controller, _, _ := strings.Cut(file, ".")
		e := enableController(payload, address(file), controller)
		if e != 0 {
			return e
		}
		isMemory := controller == "memory"
		if isMemory && !hasMemory && file != "memory.oom.group" {
			e = writeFile(payload, wholeFile, '1') // out of memory the server dies as a whole
			if e != 0 {
				return e
			}
		}
		hasMemory = hasMemory || isMemory
		e = setLimit(payload, file, value, buf)
		if e != 0 {
			return e
		}
	}
	if !limits.IsEmpty() {
		recordLimits(payload, limits, buf)
	}
	return 0
}

const wholeFile = "memory.oom.group\x00"

// setLimit writes one file, and reads it back: what the kernel does not show it does not keep.
func setLimit(payload int32, file, value string, buf *[512]byte) syscall.Errno {
	fd, e := openAt(payload, file, unix.O_RDWR)
	if e != 0 {
		return e
	}
	_, e = sys(unix.SYS_WRITE, uintptr(fd), address(value), uintptr(len(value)), 0, 0)
	isSet := e == 0 && readFile(fd, buf) > 0
	closeFD(fd)
	if e == 0 && !isSet {
		e = syscall.EIO
	}
	return e
}

// enableController enables the controller of a file in the directories above the group, if it is not enabled
// yet. The upper one may be systemd's, which keeps its controllers.
func enableController(payload int32, file uintptr, controller string) syscall.Errno {
	dir := uintptr(payload)
	if _, e := sys(unix.SYS_FACCESSAT, dir, file, 0, 0, 0); e == 0 {
		return 0
	}
	upper, e := openAt(payload, "../..\x00", directoryFlags)
	if e != 0 {
		return e
	}
	const ofUnit = "trusted.invocation_id\x00"
	if _, e = sys(unix.SYS_FGETXATTR, uintptr(upper), address(ofUnit), 0, 0, 0); e == syscall.ENODATA {
		handDown(upper, "cgroup.subtree_control\x00", controller) // otherwise the next one fails
	}
	closeFD(upper)
	return handDown(payload, "../cgroup.subtree_control\x00", controller)
}

// handDown enables a controller for the groups in a directory.
func handDown(dir int32, file, controller string) syscall.Errno {
	fd, e := openAt(dir, file, unix.O_WRONLY)
	if e != 0 {
		return e
	}
	text := [16]byte{'+'}
	size := uintptr(1 + copy(text[1:], controller))
	_, e = sys(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&text)), size, 0, 0)
	closeFD(fd)
	return e
}

// recordLimits names the files that have a limit in an attribute of the group. It leaves out those for which
// there is no room.
func recordLimits(payload int32, limits *page.Limits, buf *[512]byte) {
	n := 0
	at := uint32(0)
	for {
		file, _ := limits.Next(&at)
		if file == "" || n+len(file)+1 > len(buf) {
			break
		}
		if n > 0 {
			n += copy(buf[n&511:], " ")
		}
		n += copy(buf[n&511:], file)
	}
	value := uintptr(unsafe.Pointer(buf))
	sys(unix.SYS_FSETXATTR, uintptr(payload), address(attrLimits), value, uintptr(n), 0)
}
