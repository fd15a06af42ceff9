// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/settings/raw"
)

// setLimits is the raw form of group.ControlGroup.Limit, for a group that has no member yet. After an error
// main tries again, and reports the reason.
func setLimits(payload int32, limits []raw.Limit, buf *[512]byte) syscall.Errno {
	hasMemory := false
	for i := range limits {
		limit := &limits[i]
		controller, _, _ := strings.Cut(limit.Name(), ".")
		e := enableController(payload, uintptr(unsafe.Pointer(&limit.File)), controller)
		if e != 0 {
			return e
		}
		isMemory := controller == "memory"
		if isMemory && !hasMemory && limit.Name() != "memory.oom.group" {
			e = writeFile(payload, "memory.oom.group\x00", '1') // out of memory the server dies as a whole
			if e != 0 {
				return e
			}
		}
		hasMemory = hasMemory || isMemory
		e = setLimit(payload, limit, buf)
		if e != 0 {
			return e
		}
	}
	if len(limits) > 0 {
		recordLimits(payload, limits, buf)
	}
	return 0
}

// setLimit writes one file, and reads it back: what the kernel does not show it does not keep.
func setLimit(payload int32, limit *raw.Limit, buf *[512]byte) syscall.Errno {
	dir := uintptr(payload)
	name := uintptr(unsafe.Pointer(&limit.File))
	fd, e := sys(unix.SYS_OPENAT, dir, name, unix.O_RDWR|unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return e
	}
	value := raw.Text(uintptr(unsafe.Pointer(&limit.Value)))
	_, e = sys(unix.SYS_WRITE, fd, address(value), uintptr(len(value)), 0, 0)
	isSet := e == 0 && readFile(int32(fd), buf) > 0
	closeFD(int32(fd))
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

// recordLimits names the files that have a limit in an attribute of the group.
func recordLimits(payload int32, limits []raw.Limit, buf *[512]byte) {
	n := 0
	for i := range limits {
		if n > 0 {
			n += copy(buf[n&511:], " ")
		}
		n += copy(buf[n&511:], limits[i].Name())
	}
	value := uintptr(unsafe.Pointer(buf))
	sys(unix.SYS_FSETXATTR, uintptr(payload), address(attrLimits), value, uintptr(n), 0)
}
