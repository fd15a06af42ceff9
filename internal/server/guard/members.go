// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// members are all processes of the server, as its guard reaches them: by files of the payload. The guard
// keeps the files open, because a member can keep it from opening others (RLIMIT_NOFILE), and after the
// launcher's death nothing else would stop the server. In a tree these files are missing, and each call does
// nothing.
type members struct {
	payload int32 // directory, or -1 in a tree
	kills   int32 // cgroup.kill, or -1 before Linux 5.14
	freezes int32 // cgroup.freeze
	events  int32 // cgroup.events
	buf     [512]byte
}

func (m *members) open(payload int32) {
	*m = members{payload: payload, kills: -1, freezes: -1, events: -1}
	if payload < 0 {
		return
	}
	m.kills, _ = openAt(payload, killFile, unix.O_WRONLY)
	m.freezes, _ = openAt(payload, freezeFile, unix.O_WRONLY)
	m.events, _ = openAt(payload, eventsFile, 0)
}

func (m *members) freeze() { writeChar(m.freezes, '1') }

// thawAlone leaves groups frozen that are below the payload, as cgroup.ThawAlone.
func (m *members) thawAlone() { writeChar(m.freezes, '0') }

// thaw thaws the payload, and what members have frozen below it.
func (m *members) thaw() {
	if m.payload >= 0 {
		m.thawAlone()
		thawBelow(m.payload)
	}
}

// thawIdle leaves members frozen that a person has frozen.
func (m *members) thawIdle() {
	if m.payload < 0 {
		return
	}
	held := address(attrHeld)
	_, e := sys(unix.SYS_FGETXATTR, uintptr(m.payload), held, 0, 0, 0)
	if e != 0 {
		m.thawAlone()
	}
}

// kill kills all of them at once. It fails before Linux 5.14, and in a tree.
func (m *members) kill() bool { return writeChar(m.kills, '1') == 0 }

// killAndWait is a stop without a grace. cgroup.kill is atomic against forks, so nothing is frozen: a member
// may have pulled this guard into the group. Before Linux 5.14 the members are frozen, and killed one by one:
// by their launcher, a brain, or a sweep.
func (m *members) killAndWait() {
	if m.payload < 0 {
		return
	}
	for round := int64(1); round < killRounds; round++ {
		if !m.kill() {
			m.freeze()
			return
		}
		if !m.populated() {
			return
		}
		sleep(min(round*50e3, 2e6)) // no event says that a killed process has ended
	}
}

// killRounds is ten seconds, with 2 ms between two kills: a member in uninterruptible sleep stays.
const killRounds = 5000

// populated reports whether cgroup.events says so. One that cannot be read is, as for a brain: a member that
// does not exist costs time. One that was removed is not.
func (m *members) populated() bool {
	if m.payload < 0 {
		return false
	}
	addr := uintptr(unsafe.Pointer(&m.buf))
	n, e := sys(unix.SYS_PREAD64, uintptr(m.events), addr, unsafe.Sizeof(m.buf), 0, 0)
	if e == syscall.ENODEV {
		return false
	}
	return e != 0 || isPopulated(&m.buf, n)
}
