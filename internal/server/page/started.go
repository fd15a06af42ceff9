// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package page

import "unsafe"

// Started are the facts of a server that a raw launcher has started: it has no encoder. They are on the page,
// and in the attribute of the group until a helper has settled the start and replaces them.
type Started struct {
	Mark           uint64 // StartedMark
	At             int64  // Unix time in nanoseconds
	Client         Process
	Launcher       Process
	Namespace      uint64 // of the pids of both
	Policy         StartedPolicy
	Side           StartedSide
	Replace        bool // retire older servers of this name and client
	Quiet, Verbose bool
	From           Origin
	Position       [512]byte // of the client in the hierarchy, for a manager
}

// StartedPolicy is the policy, in nanoseconds.
type StartedPolicy struct {
	EOFGrace      int64
	TermGrace     int64
	IdleFreeze    int64 // 0 for never
	IdleTimeout   int64 // 0 for never
	OnClientDeath ClientDeath
}

// StartedSide is the client's side of the server.
type StartedSide struct {
	Stdin    File
	Stdout   File
	Conveyed bool // stdin is a pipe or socket
	Socket   bool
}

// Origin is where a raw launcher has made its group.
type Origin uint8

// Origins. A manager takes the last two over when the server runs.
const (
	CgroupDirectory Origin = iota
	SystemScope
	UserScope
)

// ClientDeath is a policy.ClientDeath.
type ClientDeath uint8

// The reactions to the client's death.
const (
	AutoOnClientDeath ClientDeath = iota
	StopOnClientDeath
	IgnoreClientDeath
)

// StartedMark begins the facts. It is no version of an encoded configuration.
const StartedMark = 0x7472617473_77

// Process is one until the machine stops.
type Process struct {
	Start uint64 // clock ticks after boot
	PID   int64
	Name  [16]byte
}

// ReapingInits are programs that are made to be PID 1 of a container, and reap orphans.
const ReapingInits = " systemd init tini docker-init dumb-init catatonit s6-svscan runit openrc-init " +
	"busybox podman-init bwrap mcpscope "

// File identifies an open file.
type File struct{ Dev, Ino uint64 }

// StartedSize is the size of Started in bytes.
const StartedSize = unsafe.Sizeof(Started{})

// StartedIn returns the facts in the value of an attribute; nil for another one. They may be forged.
func StartedIn(text string) *Started {
	if uintptr(len(text)) != StartedSize {
		return nil
	}
	s := &Started{}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(s)), StartedSize), text)
	if s.Mark != StartedMark {
		return nil
	}
	return s
}
