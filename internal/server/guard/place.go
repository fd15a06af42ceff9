// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

const directoryFlags = unix.O_DIRECTORY | unix.O_NOFOLLOW

// openPlace opens the directory of root's groups and the leaf of guards. Main makes those that are missing.
func (p *Plain) openPlace() bool {
	root := openCgroup2("/sys/fs/cgroup\x00")
	if root < 0 {
		root = openCgroup2("/sys/fs/cgroup/unified\x00")
	}
	if root < 0 {
		return false
	}
	parent, e := openAt(root, "mcp.slice/0\x00", directoryFlags)
	seen := p.seesOwn(root)
	closeFD(root)
	if e != 0 || !seen {
		return false
	}
	p.page.Parent = parent
	p.page.Leaf, e = openAt(parent, "guards\x00", directoryFlags)
	return e == 0 && !isFrozen(p.page.Leaf, &p.buf)
}

// seesOwn reports whether the mount shows the hierarchy that this process is in: with a private cgroup
// namespace it may be another part. Unless the backend was chosen, only the root is plain: any other group
// may be delegated.
func (p *Plain) seesOwn(root int32) bool {
	fd, e := openAt(unix.AT_FDCWD, "/proc/self/cgroup\x00", 0)
	if e != 0 {
		return false
	}
	n := min(readFile(fd, &p.buf), uintptr(len(p.buf)-32))
	closeFD(fd)
	at := uintptr(0) // the line of version 2 is the last one: "0::/path"
	for i := uintptr(0); i+1 < n; i++ {
		if p.buf[i&511] == '\n' {
			at = i + 1
		}
	}
	if n < at+5 || p.buf[at&511] != '0' || p.buf[(at+3)&511] != '/' || p.buf[(n-1)&511] != '\n' {
		return false
	}
	if !p.Chosen && n != at+5 {
		return false
	}
	path := p.buf[(at+4)&511 : (n-1)&511] // relative, since the root is open
	var procs [512]byte
	k := copy(procs[:], "./")
	k += copy(procs[k:400], path)
	copy(procs[k:], "/cgroup.procs")
	list, e := sys(unix.SYS_OPENAT, uintptr(root), uintptr(unsafe.Pointer(&procs)), unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return false
	}
	found := p.listsOwn(int32(list))
	closeFD(int32(list))
	return found
}

// listsOwn reports whether a file has a line with the pid of this process.
func (p *Plain) listsOwn(fd int32) bool {
	own, number := unix.Getpid(), 0
	for {
		at, size := uintptr(unsafe.Pointer(&p.buf)), unsafe.Sizeof(p.buf)
		n, e := sys(unix.SYS_READ, uintptr(fd), at, size, 0, 0)
		if e != 0 || n == 0 {
			return false
		}
		for i := uintptr(0); i < n; i++ {
			c := p.buf[i&511]
			if c == '\n' && number == own {
				return true
			}
			if c == '\n' {
				number = 0
				continue
			}
			number = number*10 + int(c-'0')
		}
	}
}

func openCgroup2(path string) int32 {
	fd, e := openAt(unix.AT_FDCWD, path, directoryFlags)
	if e != 0 {
		return -1
	}
	var st unix.Statfs_t
	sys(unix.SYS_FSTATFS, uintptr(fd), uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		closeFD(fd)
		return -1
	}
	return fd
}

// isFrozen reads the last line of cgroup.events, "frozen 0". One that cannot be read is for main.
func isFrozen(dir int32, buf *[512]byte) bool {
	fd, e := openAt(dir, eventsFile, 0)
	if e != 0 {
		return true
	}
	n := readFile(fd, buf)
	closeFD(fd)
	return n < 21 || buf[19] != '0'
}

// makeGroup makes, locks and arms the group, as group.Make.
func (p *Plain) makeGroup() (payload int32, e syscall.Errno) {
	dir := uintptr(unsafe.Pointer(&p.texts.dir))
	const mode = 0o700 // group.GroupMode
	if _, e = sys(unix.SYS_MKDIRAT, uintptr(p.page.Parent), dir, mode, 0, 0); e != 0 {
		return -1, e
	}
	const flags = directoryFlags | unix.O_CLOEXEC
	fd, e := sys(unix.SYS_OPENAT, uintptr(p.page.Parent), dir, flags, 0, 0)
	if e != 0 {
		return -1, e
	}
	payload = int32(fd)
	if _, e = sys(unix.SYS_FLOCK, fd, unix.LOCK_EX|unix.LOCK_NB, 0, 0, 0); e != 0 {
		return payload, e
	}
	facts := uintptr(unsafe.Pointer(&p.page.Started))
	armed := address("user.mcpscope.armed\x00") // group.AttrArmed
	if _, e = sys(unix.SYS_FSETXATTR, fd, armed, facts, page.StartedSize, 0); e != 0 {
		return payload, e
	}
	if _, e = sys(unix.SYS_FACCESSAT, fd, address("memory.current\x00"), 0, 0, 0); e == 0 {
		counted := address("user.mcpscope.memory\x00") // group.attrMemory
		sys(unix.SYS_FSETXATTR, fd, counted, address("counted\x00"), uintptr(len("counted")), 0)
	}
	// Lock and attribute also succeed on a directory that a sweep has removed; this read does not.
	if isFrozen(payload, &p.buf) {
		return payload, syscall.EBUSY
	}
	kind, e := openAt(payload, "cgroup.type\x00", 0)
	if e != 0 {
		return payload, e
	}
	n := readFile(kind, &p.buf) // "domain", or "domain invalid" below a threaded group
	closeFD(kind)
	if n != uintptr(len("domain\n")) {
		return payload, syscall.EOPNOTSUPP
	}
	return payload, 0
}

// removeGroup returns false where something keeps the group.
func (p *Plain) removeGroup() bool {
	dir := uintptr(unsafe.Pointer(&p.texts.dir))
	for try := int64(0); try < 32; try++ { // 10 ms
		_, e := sys(unix.SYS_UNLINKAT, uintptr(p.page.Parent), dir, unix.AT_REMOVEDIR, 0, 0)
		if e == 0 || e == syscall.ENOENT {
			return true
		}
		if e != syscall.EBUSY {
			return false
		}
		sleep(20e3 * (try + 1)) // no event says that the last process has left
	}
	return false
}
