// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"
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

// tagSearch is a search for the processes that carry a tag, wherever they are. It takes two descriptors.
type tagSearch struct {
	tag     uint64
	signal  unix.Signal // 0 sends none
	except  int32       // the pid of a process that gets none, or 0
	above   int32       // only processes with greater pids get one
	highest int32       // the greatest pid that there was
	buf     [512]byte   // struct linux_dirent64
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

// ask sends a signal to each of them once, and continues them. It looks again until there is no new one: what
// is forked meanwhile has a greater pid, as a rule.
func (s *tagSearch) ask(sig unix.Signal, except int32) {
	const mostRounds = 50 // of a fork bomb
	s.except = except
	s.above = 0
	for round := 0; round < mostRounds; round++ {
		s.highest = s.above
		s.signalEach(sig)
		if s.highest == s.above {
			break
		}
		s.above = s.highest
	}
	s.except = 0
	s.above = 0
}

// signalEach visits all processes once, and reports whether there was one with the tag.
func (s *tagSearch) signalEach(sig unix.Signal) (found bool) {
	processes, e := openAt(unix.AT_FDCWD, "/proc\x00", unix.O_DIRECTORY)
	if e != 0 {
		return false
	}
	s.signal = sig
	for {
		addr := uintptr(unsafe.Pointer(&s.buf))
		n, e := sys(unix.SYS_GETDENTS64, uintptr(processes), addr, unsafe.Sizeof(s.buf), 0, 0)
		if e != 0 || n == 0 {
			break
		}
		for entry := uintptr(0); entry+direntName < n; {
			pid := s.numberAt(entry + direntName)
			if pid > s.above && s.visit(pid) {
				found = true
				s.highest = max(s.highest, pid)
			}
			entry += entrySize(&s.buf, entry)
		}
	}
	closeFD(processes)
	return found
}

// Offsets in struct linux_dirent64.
const (
	direntSize = 16
	direntKind = 18
	direntName = 19
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

// visit signals a process with the tag, and reports whether it is one. It reads the tag again when there is a
// pidfd: the pid may be another process's by then.
func (s *tagSearch) visit(pid int32) bool {
	if !isTagged(pid, s.tag) {
		return false
	}
	fd, e := sys(unix.SYS_PIDFD_OPEN, uintptr(pid), 0, 0, 0, 0)
	if e != 0 {
		return false
	}
	found := isTagged(pid, s.tag) && !endedWithin(int32(fd), 0) // a zombie has its tag still
	if found && pid != s.except && s.signal != 0 {
		signalBy(int(fd), s.signal)
		if s.signal != unix.SIGKILL { // a stopped one would not see it
			signalBy(int(fd), unix.SIGCONT)
		}
	}
	closeFD(int32(fd))
	return found
}

func isTagged(pid int32, tag uint64) bool {
	limit := unix.Rlimit{}
	to := uintptr(unsafe.Pointer(&limit))
	_, e := sys(unix.SYS_PRLIMIT64, uintptr(pid), unix.RLIMIT_LOCKS, 0, to, 0)
	return e == 0 && limit.Cur == tag
}
