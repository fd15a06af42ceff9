// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package raw reads the flags of a run, and settings files, before there is a Go runtime: the start of the
// runtime takes longer than all of a plain start. It reads the usual forms alone. Everything else is for
// package settings, which also reports mistakes; a test compares the two.
//
// It makes system calls and nothing else: no heap, no value that escapes, no variable that an init sets.
package raw

import (
	"strings"
	"unsafe"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Flags are the flags of a run, and what files set in their place. Times are in nanoseconds, and 0 is never
// for the last two.
type Flags struct {
	Name                             uintptr // a string of C, or 0
	InCgroup                         bool    // the backend cgroup was asked for
	EOFGrace, TermGrace              int64
	IdleFreeze, IdleTimeout          int64
	OnClientDeath                    page.ClientDeath
	Replace, Require, Quiet, Verbose bool
	Limits                           page.Limits
}

// Read reads the flags in front of a command, whose words are as execve(2) has put them. It returns no
// command where main has to read them. Flags that are not there stay as they are.
func (f *Flags) Read(args []uintptr) (command []uintptr) {
	for len(args) > 0 {
		word := Text(args[0])
		if len(word) < 2 || word[0] != '-' {
			return args
		}
		args = args[1:]
		if word == "--" {
			return args
		}
		flag, value, hasValue := strings.Cut(word, "=")
		flag = strings.TrimPrefix(flag[1:], "-")
		known := false
		switch {
		case isSwitch(flag) && !hasValue:
			known = f.turn(flag, "true")
		case isSwitch(flag):
			known = f.turn(flag, value)
		case hasValue:
			known = f.set(flag, value)
		case len(args) > 0:
			known = f.set(flag, Text(args[0]))
			args = args[1:]
		}
		if !known {
			return nil
		}
	}
	return nil
}

func isSwitch(flag string) bool {
	switch flag {
	case "replace", "require", "quiet", "q", "verbose", "v":
		return true
	}
	return false
}

// turn turns a switch on or off.
func (f *Flags) turn(flag, value string) bool {
	on := value == "true"
	switch flag {
	case "replace":
		f.Replace = on
	case "require":
		f.Require = on
	case "quiet", "q":
		f.Quiet = on
	case "verbose", "v":
		f.Verbose = on
	}
	return on || value == "false"
}

func (f *Flags) set(flag, value string) (ok bool) {
	switch flag {
	case "name":
		f.Name = uintptr(unsafe.Pointer(unsafe.StringData(value)))
		return IsPlainName(value)
	case "backend": // the others are for main
		f.InCgroup = value == "cgroup"
		return f.InCgroup || value == "auto"
	case "on-client-death":
		f.OnClientDeath, ok = clientDeath(value)
	case "eof-grace":
		f.EOFGrace, ok = duration(value)
	case "term-grace":
		f.TermGrace, ok = duration(value)
	case "idle-freeze":
		f.IdleFreeze, ok = duration(value)
	case "idle-timeout":
		f.IdleTimeout, ok = duration(value)
	case "memory-max":
		ok = f.put("memory.max", value)
	case "cpu-max":
		ok = strings.HasSuffix(value, "%") && f.put("cpu.max", value)
	case "pids-max":
		ok = f.put("pids.max", value)
	case "set":
		ok = f.putAll(value)
	}
	return ok
}

// IsPlainName reports whether a name of a server is also that in the name of its directory.
func IsPlainName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return strings.ContainsAny(name, letters) && strings.Trim(name, letters+"0123456789-_.") == "" &&
		len(name) <= 40 && name[0] != '.' && name[0] != '-'
}

func clientDeath(value string) (page.ClientDeath, bool) {
	switch value {
	case "auto":
		return page.AutoOnClientDeath, true
	case "stop":
		return page.StopOnClientDeath, true
	case "ignore":
		return page.IgnoreClientDeath, true
	}
	return page.AutoOnClientDeath, false
}

// duration parses 0, or a number of milliseconds, seconds, minutes or hours.
func duration(value string) (ns int64, ok bool) {
	digits := strings.TrimRight(value, "msh")
	number, ok := integer(digits)
	unit := uint64(0)
	switch value[len(digits):] {
	case "ms":
		unit = 1e6
	case "s":
		unit = 1e9
	case "m":
		unit = 60e9
	case "h":
		unit = 3600e9
	default:
		return 0, value == "0"
	}
	const most = uint64(1e18) // 31 years
	return int64(number * unit), ok && number <= most/unit
}

// integer parses a decimal number of at most 15 digits, which has room for a unit.
func integer(digits string) (number uint64, ok bool) {
	for i := range len(digits) {
		c := digits[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		number = number*10 + uint64(c-'0')
	}
	return number, digits != "" && len(digits) <= 15
}

// Text is a string of C.
func Text(addr uintptr) string {
	all := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), 1<<30)
	n := 0
	for all[n] != 0 {
		n++
	}
	return unsafe.String(&all[0], n)
}
