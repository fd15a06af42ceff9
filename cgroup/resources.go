// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A Limit is a file of a group (memory.max), and what is to be written to it.
type Limit struct{ File, Value string }

func (l Limit) String() string { return l.File + "=" + l.Value }

// None tells whether it takes a limit away.
func (l Limit) None() bool { return l.Value == none }

// controller is the one that the file belongs to.
func (l Limit) controller() string {
	name, _, _ := strings.Cut(l.File, ".")
	return name
}

// none is what a file says where there is no limit.
const none = "max"

// oomGroup is the file that lets the kernel end all of a group when it is out of memory (Linux 4.19).
const oomGroup = "memory.oom.group"

// Limits are those of one group.
type Limits struct {
	Files []Limit // one for a file
	// BestEffort is for limits that may as well be missing.
	BestEffort bool
}

// Put replaces what is said of the same file.
func (l *Limits) Put(limit Limit) {
	l.Files = slices.DeleteFunc(l.Files, func(old Limit) bool { return old.File == limit.File })
	if !limit.None() {
		l.Files = append(l.Files, limit)
	}
}

// All are the files and, as the last, oomGroup where another limit of the memory holds and the files do not
// have it. The caller says which hold, as it goes on.
func (l Limits) All(held *[]string) iter.Seq[Limit] {
	return func(yield func(Limit) bool) {
		for _, f := range l.Files {
			if !yield(f) {
				return
			}
		}
		said := func(f Limit) bool { return f.File == oomGroup }
		if slices.ContainsFunc(*held, OfMemory) && !slices.ContainsFunc(l.Files, said) {
			yield(Limit{oomGroup, "1"})
		}
	}
}

// OfMemory tells whether a file is one of the controller of memory.
func OfMemory(file string) bool { return Limit{File: file}.controller() == "memory" }

// OOMGroup is what goes before a limit of the memory of a group that runs, for which the kernel may end
// some of its members as soon as it is set. It is empty before oomGroup itself.
func OOMGroup(before Limit) []Limit {
	if before.File == oomGroup {
		return nil
	}
	return []Limit{{oomGroup, "1"}}
}

// controllers that have limits, as the kernel's names of files begin.
var controllers = []string{"cpu", "cpuset", "dmem", "hugetlb", "io", "memory", "misc", "pids", "rdma"}

// parsers of the files whose values people write otherwise than the kernel does.
func parsers() map[string]func(string) (string, error) {
	return map[string]func(string) (string, error){
		"memory.max": ParseMemory, "memory.high": ParseMemory, "memory.low": ParseSwap, "memory.min": ParseSwap,
		"memory.swap.max": ParseSwap, "memory.swap.high": ParseSwap, "memory.zswap.max": ParseSwap,
		"pids.max": ParsePIDs, "cpu.weight": ParseWeight,
	}
}

// ParseLimit reads FILE=VALUE. The value is the kernel's, or as with the flag for that file; of
// cpu.max a percentage too.
func ParseLimit(s string) (Limit, error) {
	file, value, ok := strings.Cut(strings.TrimSpace(s), "=")
	value = strings.TrimSpace(value)
	controller, rest, _ := strings.Cut(file, ".")
	switch {
	case !ok || value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return Limit{}, fmt.Errorf("%q is not FILE=VALUE, like memory.min=64M", s)
	case !slices.Contains(controllers, controller) || rest == "" || strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._") != "":
		return Limit{}, fmt.Errorf("%q is no file of a controller (like memory.min or io.max)", file)
	}
	var err error
	parse := parsers()[file]
	switch {
	case parse != nil:
		value, err = parse(value)
	case file == "cpu.max" && strings.HasSuffix(value, "%"):
		value, err = ParseCPU(value)
	case value == "infinity":
		value = none
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
