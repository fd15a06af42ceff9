// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/roof"
)

const directoryFlags = unix.O_DIRECTORY | unix.O_NOFOLLOW

// openPlace opens the directory of the user's groups and the leaf of guards. It makes those that are missing,
// but for a manager's. In a login session a manager makes a scope, which needs neither.
func (p *Plain) openPlace() bool {
	root := openHierarchy()
	if root < 0 {
		return false
	}
	parent := int32(-1)
	e := syscall.ENOENT
	own := p.findOwn(root)
	isFound := own != "" && p.findAbove(own)
	if isFound && p.Start.page.Plan.Place.InScope {
		closeFD(root)
		return true
	}
	p.nameDirectories()
	if isFound {
		parent, e = openPath(root, &p.above, directoryFlags)
	}
	if e == syscall.ENOENT && !p.Start.isManaged() { // as backend.Place.userDirectory
		const mode, ofUser = 0o755, 0o700
		sys(unix.SYS_MKDIRAT, uintptr(root), address("mcp.slice\x00"), mode, 0, 0)
		sys(unix.SYS_MKDIRAT, uintptr(root), address("mcp.slice/0\x00"), ofUser, 0, 0)
		parent, e = openPath(root, &p.above, directoryFlags)
	}
	closeFD(root)
	if e != 0 {
		return false
	}
	p.Start.page.FD.Parent = parent
	p.Start.page.FD.Leaf, e = openAt(parent, guardsName, directoryFlags)
	if e == syscall.ENOENT {
		p.Start.page.FD.Leaf, e = makeDirectory(parent, address(guardsName))
	}
	return e == 0 && !isFrozen(p.Start.page.FD.Leaf, &p.Start.buf)
}

// findOwn finds the cgroup of this process. It returns "" if the mount does not show that. Unless the
// backend was chosen, only the root is plain outside of a manager's units: any other group may be delegated.
func (p *Plain) findOwn(root int32) string {
	path := readCgroup("/proc/self/cgroup\x00", &p.Start.buf)
	if path == "" || !p.Start.isManaged() && !p.Flags.InCgroup && path != "/" {
		return ""
	}
	if strings.Contains(path, "/"+sessionPrefix) { // main makes the group in that session
		return ""
	}
	if roof.InJob(path) { // no place of root's own will do: main finds another backend
		return ""
	}
	position := &p.Start.page.Started.Position
	n := copy(position[:len(position)-1], path)
	path = unsafe.String(&position[0], n)
	if !shows(root, path, &p.Start.buf) {
		return ""
	}
	return path
}

// shows reports whether this process is in the group of a mount that has its path: with a private cgroup
// namespace the mount may be another part of the hierarchy.
func shows(root int32, path string, buf *[512]byte) bool {
	procs := [pathMost]byte{}
	n := copy(procs[:], ".") // relative, since the root is open
	n += copy(procs[n:pathMost-len("/cgroup.procs\x00")], path)
	copy(procs[n:], "/cgroup.procs")
	list, e := openPath(root, &procs, 0)
	if e != 0 {
		return false
	}
	pids := pidList{file: list, buf: buf}
	found := pids.has(int32(unix.Getpid()))
	closeFD(list)
	return found
}

// readCgroup returns the path in a file of cgroups(7), /proc/PID/cgroup. It stays in buf. A path that is too
// long is "".
func readCgroup(file string, buf *[512]byte) string {
	fd, e := openAt(unix.AT_FDCWD, file, 0)
	if e != 0 {
		return ""
	}
	n := min(readFile(fd, buf), uintptr(len(buf)-32))
	closeFD(fd)
	line := uintptr(0) // the offset of that of version 2, which is the last one: "0::/path"
	for i := uintptr(0); i+1 < n; i++ {
		if buf[i&511] == '\n' {
			line = i + 1
		}
	}
	if n < line+5 || buf[line&511] != '0' || buf[(line+3)&511] != '/' || buf[(n-1)&511] != '\n' {
		return ""
	}
	return unsafe.String(&buf[(line+3)&511], n-line-4)
}

// findAbove finds the path of the directory that has the group, from the root of the mount. Of a manager it
// is its slice, as backend.Place.ownSlice. own is the cgroup of this process.
func (p *Plain) findAbove(own string) bool {
	if p.From == page.CgroupDirectory {
		copy(p.above[:], "mcp.slice/0")
		return true
	}
	init := readCgroup("/proc/1/cgroup\x00", &p.Start.buf)
	if strings.HasPrefix(init, "/..") { // the manager is outside of our cgroup namespace
		return false
	}
	if p.From == page.UserScope {
		where, manager := roof.Find(own, init, unix.Getuid())
		if where == roof.LoginSession {
			p.planScope()
			return true
		}
		return where == roof.BelowManager && p.setAboveToSlice(manager)
	}
	manager, isManager := roof.SystemManager(init)
	return isManager && p.setAboveToSlice(manager)
}

// planScope has the manager make the group: see Start.awaitScope.
func (p *Plain) planScope() {
	p.Start.page.Plan.Place.InScope = true
	p.Start.page.Plan.Place.Scope = p.Start.dir
}

// nameDirectories is the raw form of page.SetDirectories.
func (p *Plain) nameDirectories() {
	dir := p.Start.dir[:]
	size := 0
	for size < len(dir) && dir[size] != 0 {
		size++
	}
	dir = dir[:size]
	all := p.Start.page.Directories[:]
	n := 0
	if p.Start.isManaged() {
		n += copy(all[n:], dir)
		n += copy(all[n:], "/"+payloadName)
		n += copy(all[n:], dir)
		n += copy(all[n:], "/"+guardsName)
	}
	copy(all[n:], dir)
}

// setAboveToSlice writes the path of the slice of servers, for a manager whose cgroup is dir.
func (p *Plain) setAboveToSlice(dir string) bool {
	const slice = "/" + sliceName + "\x00"
	above := &p.above
	if len(dir) > pathMost-len(".")-len(slice) {
		return false
	}
	n := copy(above[:], ".")
	n += copy(above[n:], dir)
	copy(above[n:], slice)
	return true
}

// openPath opens a path that ends with 0.
func openPath(dir int32, path *[pathMost]byte, flags uintptr) (int32, syscall.Errno) {
	addr := uintptr(unsafe.Pointer(path))
	fd, e := sys(unix.SYS_OPENAT, uintptr(dir), addr, flags|unix.O_CLOEXEC, 0, 0)
	return int32(fd), e
}

// openHierarchy opens the root of the mount of cgroup2, or returns -1.
func openHierarchy() int32 {
	root := openCgroup2("/sys/fs/cgroup\x00")
	if root < 0 {
		root = openCgroup2("/sys/fs/cgroup/unified\x00")
	}
	return root
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

// makeGroup makes, locks and arms the group, as group.Make. After an error the plan has the step.
func (p *Start) makeGroup() (payload int32, e syscall.Errno) {
	failed := &p.page.Plan.Failed
	failed.Step = page.StepGroup
	payload, e = p.makePayload()
	if e != 0 {
		return payload, e
	}
	fd := uintptr(payload)
	if _, e = sys(unix.SYS_FLOCK, fd, unix.LOCK_EX|unix.LOCK_NB, 0, 0, 0); e != 0 {
		return payload, e
	}
	facts, size := p.facts()
	if _, e = sys(unix.SYS_FSETXATTR, fd, address(attrArmed), facts, size, 0); e != 0 {
		return payload, e
	}
	if notes := &p.page.Plan.Notes; notes.Size > 0 {
		text := uintptr(unsafe.Pointer(&notes.Text))
		sys(unix.SYS_FSETXATTR, fd, address(attrNotes), text, uintptr(notes.Size), 0)
	}
	if !p.isManaged() { // a manager adopts no group that hands controllers down
		enableController(payload, address("memory.current\x00"), "memory") // otherwise it is not counted
	}
	failed.Step = page.StepLimit
	e = setLimits(payload, &p.page.Plan.Limits, failed, &p.buf)
	if e != 0 {
		return payload, e
	}
	if p.page.Plan.Place.EndsWhole {
		writeFile(payload, wholeFile, '1') // main has enabled the controller, or noted that it can't
	}
	if _, e = sys(unix.SYS_FACCESSAT, fd, p.memoryFile(), 0, 0, 0); e == 0 {
		counted := address("user.mcpscope.memory\x00") // group.attrMemory
		sys(unix.SYS_FSETXATTR, fd, counted, address("counted\x00"), uintptr(len("counted")), 0)
	}
	// Lock and attribute also succeed on a directory that a sweep has removed; this read does not.
	failed.Step = page.StepFrozen
	if isFrozen(payload, &p.buf) {
		return payload, syscall.EBUSY
	}
	failed.Step = page.StepGroup
	kind, e := openAt(payload, "cgroup.type\x00", 0)
	if e != 0 {
		return payload, e
	}
	n := readFile(kind, &p.buf) // "domain", or "domain invalid" below a threaded group
	closeFD(kind)
	if n != uintptr(len("domain\n")) {
		failed.Step = page.StepThreaded
		return payload, syscall.EOPNOTSUPP
	}
	return payload, 0
}

// makePayload makes the directory of the members. In a scope that is made already.
func (p *Start) makePayload() (payload int32, e syscall.Errno) {
	if p.page.Plan.Place.InScope {
		path := uintptr(unsafe.Pointer(&p.page.Plan.Place.Payload))
		here := unix.AT_FDCWD
		fd, e := sys(unix.SYS_OPENAT, uintptr(here), path, directoryFlags|unix.O_CLOEXEC, 0, 0)
		return int32(fd), e // -1 after an error
	}
	payload, e = makeDirectory(p.page.FD.Parent, lastDirectory(p.page))
	if e == 0 && p.isManaged() {
		scope := payload
		payload, e = makeDirectory(scope, address(payloadName))
		closeFD(scope)
	}
	return payload, e
}

// facts are those of the server, as main has encoded them or as raw code has.
func (p *Start) facts() (addr, size uintptr) {
	if plan := &p.page.Plan; plan.Facts.Size > 0 {
		return uintptr(unsafe.Pointer(&plan.Facts.Text)), uintptr(plan.Facts.Size)
	}
	return uintptr(unsafe.Pointer(&p.page.Started)), page.StartedSize
}

// memoryFile exists where the memory of the group is counted from the start.
func (p *Start) memoryFile() uintptr {
	if p.page.Plan.Place.InScope {
		return address("../memory.current\x00")
	}
	return address("memory.current\x00")
}

// lastDirectory is that of the whole group: see page.SetDirectories.
func lastDirectory(on *page.Page) uintptr {
	all := on.Directories[:]
	last := 0
	for i := 0; i+1 < len(all) && all[i] != 0; i++ {
		last = i
		for i+1 < len(all) && all[i] != 0 {
			i++
		}
	}
	return uintptr(unsafe.Pointer(&all[last]))
}

// makeDirectory makes and opens a directory, or returns -1.
func makeDirectory(parent int32, name uintptr) (dir int32, e syscall.Errno) {
	if _, e = sys(unix.SYS_MKDIRAT, uintptr(parent), name, groupMode, 0, 0); e != 0 {
		return -1, e
	}
	fd, e := sys(unix.SYS_OPENAT, uintptr(parent), name, directoryFlags|unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return -1, e
	}
	return int32(fd), 0
}
