// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"fmt"
	"slices"
	"strings"
)

// A Limit is a file of a group (memory.max) and its value.
type Limit struct{ File, Value string }

func (l Limit) String() string { return l.File + "=" + l.Value }

// None reports whether it removes a limit.
func (l Limit) None() bool { return l.Value == none }

func (l Limit) controller() string {
	name, _, _ := strings.Cut(l.File, ".")
	return name
}

// none is the value of a file without a limit.
const none = "max"

// OOMGroup makes the kernel kill the whole group when it is out of memory.
const OOMGroup = "memory.oom.group"

type Limits struct {
	Files []Limit // one for a file
	// BestEffort: the server may start without a limit that fails.
	BestEffort bool
}

// Put replaces the limit of the same file.
func (l *Limits) Put(limit Limit) {
	l.Files = slices.DeleteFunc(l.Files, func(old Limit) bool { return old.File == limit.File })
	at := len(l.Files)
	if at > 0 && l.Files[at-1].File == OOMGroup { // which each limit of the memory sets
		at--
	}
	if !limit.None() {
		l.Files = slices.Insert(l.Files, at, limit)
	}
}

// OfMemory reports whether a file belongs to the memory controller.
func OfMemory(file string) bool { return Limit{File: file}.controller() == "memory" }

// controllers that have limits, as the kernel's names of files begin.
var controllers = []string{"cpu", "cpuset", "dmem", "hugetlb", "io", "memory", "misc", "pids", "rdma"}

// fileLetters are in names of files of a controller.
const fileLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"

// ParseLimit reads FILE=VALUE. The value is the kernel's; a size may have a unit, and cpu.max may be
// a percentage.
func ParseLimit(s string) (Limit, error) {
	file, value, ok := strings.Cut(strings.TrimSpace(s), "=")
	value = strings.TrimSpace(value)
	controller, rest, _ := strings.Cut(file, ".")
	switch {
	case !ok || value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return Limit{}, fmt.Errorf("%q is not FILE=VALUE, like memory.min=64M", s)
	case !slices.Contains(controllers, controller) || rest == "" || strings.Trim(rest, fileLetters) != "":
		return Limit{}, fmt.Errorf("%q is no file of a controller (like memory.min or io.max)", file)
	}
	var err error
	switch {
	case file == "memory.max" || file == "memory.high":
		value, err = ParseMemory(value)
	case controller == "memory" && file != OOMGroup:
		value, err = parseSize(value)
	case file == "pids.max":
		value, err = ParsePIDs(value)
	case file == "cpu.max" && strings.HasSuffix(value, "%"):
		value, err = ParseCPU(value)
	}
	return Limit{file, value}, err
}

// ParseLimits reads several, with semicolons between them.
func ParseLimits(s string) ([]Limit, error) {
	var all []Limit
	for part := range strings.SplitSeq(s, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		l, err := ParseLimit(part)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%q is not FILE=VALUE, like memory.min=64M", s)
	}
	return all, nil
}
