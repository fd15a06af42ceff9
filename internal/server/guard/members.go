// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// members are all processes of the server, as its guard reaches them: by files of the payload, which are open
// from the start on. In a tree these files are missing, and each call does nothing.
type members struct {
	payload int32 // directory, or -1 in a tree
	kills   int32 // cgroup.kill
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

// kill kills all of them at once. It does nothing in a tree.
func (m *members) kill() { writeChar(m.kills, '1') }

// populated reports whether cgroup.events says so. One that cannot be read is, as for a helper: a member that
// does not exist costs time. One that was removed is not.
func (m *members) populated() bool {
	if m.payload < 0 {
		return false
	}
	if m.events < 0 { // the group was removed before, or it could not be opened
		return populated(m.payload, &m.buf)
	}
	addr := uintptr(unsafe.Pointer(&m.buf))
	n, e := sys(unix.SYS_PREAD64, uintptr(m.events), addr, unsafe.Sizeof(m.buf), 0, 0)
	if e == syscall.ENODEV {
		return false
	}
	return e != 0 || isPopulated(&m.buf, n)
}
