// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// tag returns the tag of the server, whose id is in the name of its guards.
func (l *lasting) tag() uint64 {
	id := [idLength]byte{}
	copy(id[:], l.name[len(guardPrefix):])
	return tagOf(&id)
}

// tagOf is the raw form of group.TagOf.
func tagOf(id *[idLength]byte) uint64 {
	number := uint64(0)
	for _, c := range id {
		digit := uint64(c - '0')
		if c >= 'a' {
			digit = uint64(c-'a') + 10
		}
		number = number*36 + digit
	}
	return tagMagic<<tagBits | number&(1<<tagBits-1)
}

// limitWithoutTag reads the limit that may have the tag of this process, and returns whether it has. Then the
// limit is that without the tag.
func limitWithoutTag(limit *unix.Rlimit) (tagged bool) {
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, 0, uintptr(unsafe.Pointer(limit)), 0)
	tagged = limit.Cur>>tagBits == tagMagic
	if tagged {
		limit.Cur = limit.Max
	}
	return tagged
}

// clearTag removes an outer server's tag from a guard. A launcher that is a member of another server carries
// the tag of that, so that it is stopped with it. Its guard must not be: it stops the inner server. One that
// is not the child of its launcher is born without the tag, since the outer server may be killed at any time.
func clearTag() {
	limit := unix.Rlimit{}
	if limitWithoutTag(&limit) {
		sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_LOCKS, uintptr(unsafe.Pointer(&limit)), 0, 0)
	}
}

// tagSearch is a search for the members: the processes that carry a tag, wherever they are, and those in a
// group that have lost it. It takes two descriptors.
type tagSearch struct {
	tag       uint64
	procs     int32       // directory of the group, or -1
	list      uintptr     // *page.Members where they are listed, or 0
	hasGroup  bool        // those in the group are listed already
	signal    unix.Signal // 0 sends none
	isStopped bool        // only stopped ones get one
	pipes     pipeSearch
	sleeper   sleepSearch
	main      int32     // the pid of the main process, which is not listed; or 0
	mainHas   bool      // and gets no signal
	above     int32     // only processes with greater pids get one
	highest   int32     // the greatest pid that there was
	buf       [512]byte // struct linux_dirent64, or a list of pids
	text      [512]byte
}

// pipeSearch looks for a member that has both of the client's pipes.
type pipeSearch struct {
	wanted [2]page.File // zero for none
	found  bool
}

// sleepSearch looks for a member that SIGKILL does not end, as it is in uninterruptible sleep or may not be
// signalled: the one that it has found before, if that sleeps still.
type sleepSearch struct {
	isOn   bool
	before int32
	pid    int32 // 0 for none
}

// isTagged also finds processes that this one may not signal, if the search is on.
func (s *sleepSearch) isTagged(pid int32, tag uint64) bool {
	return isTagged(pid, tag) || s.isOn && fileLocks(pid) == tag
}

// see takes a process, and whether it sleeps.
func (s *sleepSearch) see(pid int32, sleeps bool) {
	isNew := s.pid != s.before || s.pid == 0
	if sleeps && isNew {
		s.pid = pid
	}
}

// killAll kills all of them.
func (s *tagSearch) killAll() {
	quiet := 0 // a list misses one that is just forked
	for round := 0; round < 1000 && quiet < 2; round++ {
		quiet++
		if s.signalEach(unix.SIGKILL) {
			quiet = 0
			sleep(2e6) // no event says that they have ended
		}
	}
}

// exists reports whether there is one.
func (s *tagSearch) exists() bool { return s.signalEach(0) }

// ask sends a signal to each of them once, and continues them; mainHas: the main process has got it. It looks
// again until there is no new one: what is forked meanwhile has a greater pid, as a rule.
func (s *tagSearch) ask(sig unix.Signal, mainHas bool) {
	const mostRounds = 50 // of a fork bomb
	s.mainHas = mainHas
	s.above = 0
	for round := 0; round < mostRounds; round++ {
		s.highest = s.above
		s.signalEach(sig)
		if s.highest == s.above {
			break
		}
		s.above = s.highest
	}
	s.mainHas = false
	s.above = 0
}

// continueStopped continues those that are stopped. Those that run get no SIGCONT, which they could catch.
func (s *tagSearch) continueStopped() {
	s.isStopped = true
	s.signalEach(unix.SIGCONT)
	s.isStopped = false
}

// hasPipes reports whether one of them has both of the client's pipes.
func (s *tagSearch) hasPipes(of *page.Started) bool {
	s.pipes = pipeSearch{}
	s.pipes.wanted[0] = of.Side.Stdin
	s.pipes.wanted[1] = of.Side.Stdout
	s.exists()
	s.pipes.wanted[0].Ino = 0
	return s.pipes.found
}

// hasDaemon reports whether a process of the group is in another session than those of launcher and main
// process: see helper.keeping.
func hasDaemon(group int32, of *page.Launched, buf *[512]byte) (found bool) {
	list, e := openAt(group, procsFile, 0)
	if e != 0 {
		return isUnseen(e)
	}
	ofMain := sessionOf(of.MainPID)
	pids := pidList{file: list, buf: buf}
	for !found && pids.next() {
		session := sessionOf(pids.pid)
		found = session != 0 && session != of.Session && session != of.MainPID && session != ofMain
	}
	closeFD(list)
	return found
}

// sessionOf is 0 for a process that has ended.
func sessionOf(pid int32) int32 {
	if pid <= 0 { // of another pid namespace
		return 0
	}
	session, e := sys(unix.SYS_GETSID, uintptr(pid), 0, 0, 0, 0)
	if e != 0 {
		return 0
	}
	return int32(session)
}

// findSleeper looks for a member that SIGKILL does not end, also among those of the group without the tag.
func (s *tagSearch) findSleeper() {
	s.sleeper = sleepSearch{isOn: true, before: s.sleeper.pid}
	s.exists()
	s.sleeper.isOn = false
	list, e := openAt(s.procs, procsFile, 0)
	if e != 0 {
		return
	}
	pids := pidList{file: list, buf: &s.buf}
	for pids.next() {
		s.sleeper.see(pids.pid, s.sleepsUninterruptibly(pids.pid))
	}
	closeFD(list)
}

// isUnseen reports whether the host had no descriptor or memory for a look: a member may be there.
func isUnseen(e syscall.Errno) bool {
	return e == syscall.EMFILE || e == syscall.ENFILE || e == syscall.ENOMEM
}

// signalEach visits all processes once, and reports whether there was a member, or may have been.
func (s *tagSearch) signalEach(sig unix.Signal) (found bool) {
	s.signal = sig
	found = s.visitUntagged()
	processes, e := openAt(unix.AT_FDCWD, "/proc\x00", unix.O_DIRECTORY)
	if e != 0 {
		return found || isUnseen(e)
	}
	for {
		addr := uintptr(unsafe.Pointer(&s.buf))
		n, e := sys(unix.SYS_GETDENTS64, uintptr(processes), addr, unsafe.Sizeof(s.buf), 0, 0)
		found = found || isUnseen(e)
		if e != 0 || n == 0 {
			break
		}
		for entry := uintptr(0); entry+direntName < n; {
			pid := s.numberAt(entry + direntName)
			if pid > s.above && s.visitTagged(pid) {
				found = true
			}
			entry += entrySize(&s.buf, entry)
		}
	}
	closeFD(processes)
	return found
}

// visitUntagged visits the processes of the group that have another RLIMIT_LOCKS.
func (s *tagSearch) visitUntagged() (found bool) {
	if s.procs < 0 {
		return false
	}
	list, e := openAt(s.procs, procsFile, 0)
	if e != 0 {
		return isUnseen(e)
	}
	pids := pidList{file: list, buf: &s.buf}
	for pids.next() {
		isOther := pids.pid > s.above && !isTagged(pids.pid, s.tag)
		if isOther && s.visitListed(pids.pid) {
			found = true
		}
	}
	closeFD(list)
	return found
}

// isListed reports whether the group has the process.
func (s *tagSearch) isListed(pid int32) (found bool) {
	list, e := openAt(s.procs, procsFile, 0)
	if e != 0 {
		return false
	}
	pids := pidList{file: list, buf: &s.text}
	found = pids.has(pid)
	closeFD(list)
	return found
}

// Offsets in struct linux_dirent64.
const (
	direntOffset = 8
	direntSize   = 16
	direntKind   = 18
	direntName   = 19
)

// entrySize is the size of the entry at that offset.
func entrySize(buf *[512]byte, at uintptr) uintptr {
	low := uintptr(buf[(at+direntSize)&511])
	high := uintptr(buf[(at+direntSize+1)&511])
	return low | high<<8
}

// numberAt is the number at that offset, or 0.
func (s *tagSearch) numberAt(offset uintptr) (n int32) {
	for ; s.buf[offset&511] != 0; offset++ {
		c := s.buf[offset&511]
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int32(c-'0')
	}
	return n
}

// visitTagged visits a process with the tag, and reports whether it is one, or may be. It reads the tag again
// when there is a pidfd: the pid may be another process's by then.
func (s *tagSearch) visitTagged(pid int32) bool {
	if !s.sleeper.isTagged(pid, s.tag) {
		return false
	}
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(pid), 0, 0, 0, 0)
	if e != 0 {
		return isUnseen(e)
	}
	found := s.sleeper.isTagged(pid, s.tag) && !endedWithin(int32(fd), 0) // a zombie has its tag still
	if found {
		s.visit(pid, int(fd))
	}
	closeFD(int32(fd))
	return found
}

// visitListed does the same for one that the group has.
func (s *tagSearch) visitListed(pid int32) bool {
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(pid), 0, 0, 0, 0)
	if e != 0 {
		return isUnseen(e)
	}
	found := s.isListed(pid) && !endedWithin(int32(fd), 0)
	if found {
		s.visit(pid, int(fd))
	}
	closeFD(int32(fd))
	return found
}

// visit lists and signals a member.
func (s *tagSearch) visit(pid int32, pidfd int) {
	s.highest = max(s.highest, pid)
	if s.list != 0 && pid != s.main && !(s.hasGroup && s.isListed(pid)) {
		s.add(*(**page.Members)(unsafe.Pointer(&s.list)), pid)
	}
	pipes := &s.pipes
	if pipes.wanted[0].Ino != 0 && !pipes.found {
		pipes.found = hasFile(pid, &pipes.wanted[0]) && hasFile(pid, &pipes.wanted[1])
	}
	if s.sleeper.isOn {
		s.sleeper.see(pid, s.sleepsUninterruptibly(pid) || !maySignal(pid))
	}
	hasGot := pid == s.main && s.mainHas
	if hasGot {
		return
	}
	if s.signal == 0 || s.isStopped && s.stateOf(pid) != 'T' {
		return
	}
	signalBy(pidfd, s.signal)
	if s.signal != unix.SIGKILL && s.signal != unix.SIGSTOP && s.signal != unix.SIGCONT {
		// a stopped one would not see it
		signalBy(pidfd, unix.SIGCONT)
	}
}

// listIn has members listed that are visited from then on.
func (s *tagSearch) listIn(to *page.Members) {
	s.list = uintptr(unsafe.Pointer(to))
	s.hasGroup = false
}

// listGroup lists the processes of the group, before a search that takes longer.
func (s *tagSearch) listGroup() {
	list, e := openAt(s.procs, procsFile, 0)
	if e != 0 {
		return
	}
	pids := pidList{file: list, buf: &s.buf}
	for pids.next() {
		s.add(*(**page.Members)(unsafe.Pointer(&s.list)), pids.pid)
	}
	closeFD(list)
	s.hasGroup = true
}

// add lists a member, as far as there is room. It reads no file for which the kernel locks the member's
// memory, as cmdline: a member may have that lock while it waits for a file system that hangs.
func (s *tagSearch) add(to *page.Members, pid int32) {
	n := to.Total
	to.Total++
	if n >= page.MembersMost {
		return
	}
	m := &to.List[n&(page.MembersMost-1)]
	m.PID = pid
	s.readProcess(pid, "/comm")
	isOver := false // a guard that was killed may have left a longer name
	for i := range len(m.Name) - 1 {
		c := s.text[i]
		isOver = isOver || c == '\n' || c == 0
		if isOver {
			c = 0
		}
		m.Name[i] = c
	}
}

// stateOf is the state of a process (proc_pid_stat(5)), or 0.
func (s *tagSearch) stateOf(pid int32) (state byte) {
	at := s.readState(pid)
	return s.text[at&511]
}

// sleepsUninterruptibly reports whether a process is in state D, and has not begun to exit. One that exits
// waits for locks of the kernel in that state, for seconds if a thousand others do the same.
func (s *tagSearch) sleepsUninterruptibly(pid int32) bool {
	const exiting = 0x4 // PF_EXITING of linux/sched.h
	const flagsAt = 6   // fields behind the state
	at := s.readState(pid)
	if s.text[at&511] != 'D' {
		return false
	}
	for field := 0; field < flagsAt; field++ {
		for s.text[at&511] != ' ' && s.text[at&511] != 0 {
			at++
		}
		at++
	}
	flags := uint64(0)
	for ; isDigit(s.text[at&511]); at++ {
		flags = flags*10 + uint64(s.text[at&511]-'0')
	}
	return flags&exiting == 0
}

// readState reads proc_pid_stat(5), and returns where the state is: behind the name, which may have anything.
func (s *tagSearch) readState(pid int32) (at uintptr) {
	n := s.readProcess(pid, "/stat")
	at = uintptr(len(s.text) - 1) // where there is a 0
	for i := uintptr(0); i+2 < n; i++ {
		if s.text[i&511] == ')' {
			at = i + 2
		}
	}
	return at
}

// readProcess reads the beginning of a file of /proc/PID into text, which has a 0 behind it.
func (s *tagSearch) readProcess(pid int32, name string) (size uintptr) {
	clear(s.text[:])
	fd := openProcess(int(pid), name)
	if fd < 0 {
		return 0
	}
	addr := uintptr(unsafe.Pointer(&s.text))
	n, e := sys(unix.SYS_READ, uintptr(fd), addr, unsafe.Sizeof(s.text)-1, 0, 0)
	closeFD(fd)
	if e != 0 {
		return 0
	}
	return n
}

// openProcess opens a file of /proc/PID, or returns -1.
func openProcess(pid int, name string) int32 {
	path := procPath{}
	path.add("/proc/")
	path.addNumber(pid)
	path.add(name)
	return path.open()
}

// hasFile reports whether a process has that file as one of the descriptors that a shell uses. A shell that
// has just forked a command may have the file at a greater number still, and puts it at 0 or 1 before it
// closes that: so the greater ones are looked at first.
func hasFile(pid int32, file *page.File) bool {
	for fd := 9; fd >= 0; fd-- {
		path := procPath{}
		path.add("/proc/")
		path.addNumber(int(pid))
		path.add("/fd/")
		path.addNumber(fd)
		at := page.File{}
		here := unix.AT_FDCWD
		fileAt(uintptr(here), uintptr(unsafe.Pointer(&path.text)), &at)
		if at.Ino != 0 && at.Dev == file.Dev && at.Ino == file.Ino {
			return true
		}
	}
	return false
}

// procPath is the path of a file, with a 0 behind it.
type procPath struct {
	text [64]byte
	size int
}

func (p *procPath) add(text string) {
	for i := range len(text) {
		p.text[p.size&63] = text[i]
		p.size++
	}
}

func (p *procPath) addNumber(n int) {
	var digits [11]byte
	first := decimal(&digits, n) - uintptr(unsafe.Pointer(&digits))
	for i := first; i < uintptr(len(digits)-1); i++ {
		p.text[p.size&63] = digits[i]
		p.size++
	}
}

// open returns -1 after an error.
func (p *procPath) open() int32 {
	here := unix.AT_FDCWD
	fd, e := sys(unix.SYS_OPENAT, uintptr(here), uintptr(unsafe.Pointer(&p.text)), unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return -1
	}
	return int32(fd)
}

// isTagged is the raw form of freeze.TagOn. prlimit(2) refuses to tell the limits of a process with the
// rights of another user or group: of a setgid program, or of a server that root has made another user's,
// below an engine without CAP_SYS_RESOURCE. All may read them in /proc, which takes ten times as long: that
// is done only for processes that this one may signal.
func isTagged(pid int32, tag uint64) bool {
	limit := unix.Rlimit{}
	to := uintptr(unsafe.Pointer(&limit))
	_, e := sys(unix.SYS_PRLIMIT64, uintptr(pid), unix.RLIMIT_LOCKS, 0, to, 0)
	if e == syscall.EPERM && maySignal(pid) {
		return fileLocks(pid) == tag
	}
	return e == 0 && limit.Cur == tag
}

// maySignal sends no signal.
func maySignal(pid int32) bool {
	_, e := sys(unix.SYS_KILL, uintptr(pid), 0, 0, 0, 0)
	return e == 0
}

// fileLocks reads the soft limit RLIMIT_LOCKS in /proc/PID/limits; 0 is also "unlimited". That file has a
// line of 79 bytes for each limit, behind a header.
func fileLocks(pid int32) (soft uint64) {
	const name = "Max file locks            "
	const at = 79 * (1 + unix.RLIMIT_LOCKS)
	fd := openProcess(int(pid), "/limits")
	if fd < 0 {
		return 0
	}
	line := [64]byte{}
	sys(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&line)), unsafe.Sizeof(line), at, 0)
	closeFD(fd)
	for i := range len(name) {
		if line[i&63] != name[i] {
			return 0
		}
	}
	for i := len(name); isDigit(line[i&63]); i++ {
		soft = soft*10 + uint64(line[i&63]-'0')
	}
	return soft
}
