// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package page

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Plan is how raw code starts a server. Raw code fills it in by itself, or main does, and executes its own
// program with it.
type Plan struct {
	// IsByMain: the page has an encoded configuration.
	IsByMain bool
	Launcher int32    // pid of the process that main has meant it for; 0 for none
	ID       [8]byte  // of the server
	Comm     [16]byte // of the launcher
	Vectors  Vectors
	Stderr   int32 // a descriptor that becomes the server's 2, or 0 for that of the launcher
	// HidesArguments of the launcher, when the server runs.
	HidesArguments bool
	Place          PlanPlace
	NoFile         unix.Rlimit
	Signals        Signals
	Limits         Limits
	Failed         Failure
	Facts, Notes   Attribute
}

// Vectors are where the arguments and variables of a server begin in those of its launcher.
type Vectors struct{ Command, Variables uint32 }

// PlanPlace is what kind of group the server gets.
type PlanPlace struct {
	IsTree bool
	// InScope: a manager makes the group, and moves the main process to it, before the server runs.
	InScope bool
	// Scope is the name of that, from raw code; main has it in the configuration.
	Scope [DirectoryMost]byte
	// EndsWhole: the kernel kills all members together when the session is out of memory.
	EndsWhole bool
	Payload   [1024]byte // the path of a group in a scope
}

// Signals are those that the client blocks and ignores: signal n is bit n-1.
type Signals struct{ Blocked, Ignored uint64 }

// Attribute is the value of an attribute of the group.
type Attribute struct {
	Size uint32
	Text [2048]byte
}

// Failure is why raw code could not start the server, and has left nothing of it.
type Failure struct {
	Step  Step
	Errno uint32
	Limit uint32 // with StepLimit: where Limits.Next finds the limit
	Size  uint32
	Text  [1024]byte // with StepScope: why, as launcher.MakeScope writes it
}

// Limits are files of a group and what is written to them. They are in the page's own memory, and need no Go
// runtime.
type Limits struct {
	texts [2048]byte // a file and a value in turn, each with a 0 behind
	size  uint32
}

// Add appends a limit. It returns false if there is no room.
func (l *Limits) Add(file, value string) bool {
	size := int(l.size)
	if size+len(file)+len(value)+2 > len(l.texts) {
		return false
	}
	size += copy(l.texts[size:], file)
	l.texts[size] = 0
	size++
	size += copy(l.texts[size:], value)
	l.texts[size] = 0
	l.size = uint32(size) + 1
	return true
}

// Next returns the limit at a place, and goes on to the next one. Both texts have a 0 behind. There is no
// limit where file is "".
func (l *Limits) Next(at *uint32) (file, value string) {
	file = l.text(at)
	return file, l.text(at)
}

func (l *Limits) text(at *uint32) string {
	if *at >= min(l.size, uint32(len(l.texts))) {
		return ""
	}
	rest := l.texts[*at:]
	n := 0
	for n < len(rest)-1 && rest[n] != 0 {
		n++
	}
	*at += uint32(n) + 1
	return unsafe.String(&rest[0], n)
}

// IsEmpty reports whether there is none.
func (l *Limits) IsEmpty() bool { return l.size == 0 }
