// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// removeDirectories removes those of a page, with the groups that members have made in them. It reports
// whether all are gone.
func removeDirectories(on *page.Page) (gone bool) {
	enter(on.FD.Leaf) // it may be in one of them
	d := directories{page: on}
	gone = true
	for dir := d.next(); dir != 0; dir = d.next() {
		const tries = 100 // 100 ms
		e := removeDirectory(on.FD.Parent, dir, 1)
		if e == syscall.EBUSY {
			removeBelow(on.FD.Parent, dir)
			e = removeDirectory(on.FD.Parent, dir, tries)
		}
		gone = gone && (e == 0 || e == syscall.ENOENT)
	}
	return gone
}

// removeBelow removes the groups in a directory, however deep. It walks up and down, since a stack has no
// room for the depth that a member can make. A group that has a process is tried again and again, for some
// milliseconds.
func removeBelow(parent int32, path uintptr) {
	const mostSteps = 20000
	fd, e := sys(unix.SYS_OPENAT, uintptr(parent), path, directoryFlags|unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return
	}
	dir := int32(fd)
	depth := 0
	for step := 0; step < mostSteps && dir >= 0; step++ {
		next := removeIn(dir)
		hasNone := next < 0
		if hasNone && depth == 0 {
			break
		}
		depth++
		if hasNone {
			depth -= 2
			next, _ = openAt(dir, "..\x00", directoryFlags)
		}
		closeFD(dir)
		dir = next
	}
	closeFD(dir)
}

// removeIn removes the directories in a directory, until one can't be removed. It opens that, or returns -1.
func removeIn(dir int32) (busy int32) {
	buf := [512]byte{}
	sys(unix.SYS_LSEEK, uintptr(dir), 0, unix.SEEK_SET, 0, 0)
	for {
		addr := uintptr(unsafe.Pointer(&buf))
		n, e := sys(unix.SYS_GETDENTS64, uintptr(dir), addr, unsafe.Sizeof(buf), 0, 0)
		if e != 0 || n == 0 {
			return -1
		}
		for entry := uintptr(0); entry+direntName < n; {
			isDirectory := buf[(entry+direntKind)&511] == unix.DT_DIR
			isOther := isDirectory && buf[(entry+direntName)&511] != '.'
			name := addr + entry + direntName
			if isOther {
				_, e = sys(unix.SYS_UNLINKAT, uintptr(dir), name, unix.AT_REMOVEDIR, 0, 0)
			}
			if isOther && e == syscall.EBUSY {
				fd, _ := sys(unix.SYS_OPENAT, uintptr(dir), name, directoryFlags|unix.O_CLOEXEC, 0, 0)
				return int32(fd) // -1 after an error
			}
			entry += entrySize(&buf, entry)
		}
	}
}

// thawDepth is how deep thawBelow goes: so many descriptors are open.
const thawDepth = 8

// thawBelow thaws the groups below a directory.
func thawBelow(payload int32) {
	buf := [512]byte{}
	dirs := [thawDepth]int32{}
	here, e := openAt(payload, ".\x00", directoryFlags) // with an offset of its own
	if e != 0 {
		return
	}
	dirs[0] = here
	for depth := 0; depth >= 0; {
		dir := dirs[depth&(thawDepth-1)]
		next := nextDirectory(dir, &buf)
		if next < 0 {
			closeFD(dir)
			depth--
			continue
		}
		writeFile(next, freezeFile, '0')
		if depth+1 == thawDepth {
			closeFD(next)
			continue
		}
		depth++
		dirs[depth&(thawDepth-1)] = next
	}
}

// nextDirectory opens the next directory in a directory, or returns -1 after the last one.
func nextDirectory(dir int32, buf *[512]byte) int32 {
	for {
		addr := uintptr(unsafe.Pointer(buf))
		n, e := sys(unix.SYS_GETDENTS64, uintptr(dir), addr, unsafe.Sizeof(*buf), 0, 0)
		if e != 0 || n == 0 {
			return -1
		}
		for entry := uintptr(0); entry+direntName < n; entry += entrySize(buf, entry) {
			isDirectory := buf[(entry+direntKind)&511] == unix.DT_DIR
			if !isDirectory || buf[(entry+direntName)&511] == '.' {
				continue
			}
			low := uintptr(wordAt(buf, entry+direntOffset))
			high := uintptr(wordAt(buf, entry+direntOffset+4))
			sys(unix.SYS_LSEEK, uintptr(dir), low|high<<32, unix.SEEK_SET, 0, 0) // behind this entry
			name := addr + entry + direntName
			fd, e := sys(unix.SYS_OPENAT, uintptr(dir), name, directoryFlags|unix.O_CLOEXEC, 0, 0)
			if e == 0 {
				return int32(fd)
			}
			break // it was removed
		}
	}
}
