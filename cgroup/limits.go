// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// A Limit is a file of a group (memory.max) and its value.
type Limit struct{ File, Value string }

func (l Limit) String() string { return l.File + "=" + l.Value }

// None reports whether it removes a limit. As a protection, "max" is all memory.
func (l Limit) None() bool {
	isProtection := l.File == "memory.min" || l.File == "memory.low"
	return l.Value == none && !isProtection
}

func (l Limit) controller() string {
	name, _, _ := strings.Cut(l.File, ".")
	return name
}

// none is the value of a file without a limit.
const none = "max"

// OOMGroup makes the kernel kill the whole group when it is out of memory.
const OOMGroup = "memory.oom.group"

// Limits are the limits of a group.
type Limits struct {
	Files []Limit // at most one for each file
}

// Put replaces the limit of the same file.
func (l *Limits) Put(limit Limit) {
	l.Files = slices.DeleteFunc(l.Files, func(old Limit) bool { return old.File == limit.File })
	if !limit.None() {
		l.Files = append(l.Files, limit)
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
	for part := range strings.SplitSeq(strings.Trim(s, "; \t\n"), ";") {
		l, err := ParseLimit(part)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// ParseMemory reads a size of at least 1 MiB; a smaller one lacks its unit. K, M, G and T are powers of 1024.
func ParseMemory(s string) (string, error) {
	text, err := parseSize(s)
	if err != nil || text == none {
		return text, err
	}
	switch n, _ := strconv.ParseUint(text, 10, 64); { // parseSize has made the text
	case n == 0:
		return "", fmt.Errorf("%q is too small: nothing runs with less than 1M; no limit is max", s)
	case n < 1<<20:
		return "", fmt.Errorf("%q is too small: nothing runs with less than 1M; did you mean %sM?",
			s, strings.TrimRight(s, "K"))
	}
	return text, nil
}

func parseSize(s string) (string, error) {
	if s == none {
		return none, nil
	}
	digits := strings.TrimRight(s, "KMGT")
	unit := slices.Index([]string{"", "K", "M", "G", "T"}, s[len(digits):])
	n, err := strconv.ParseUint(digits, 10, 62-10*max(unit, 0))
	if err != nil || unit < 0 {
		return "", fmt.Errorf("%q is no size (like 512M, 2G or max)", s)
	}
	return strconv.FormatUint(n<<(10*unit), 10), nil
}

// ParsePIDs reads a number of processes and threads above zero.
func ParsePIDs(s string) (string, error) {
	if n, err := strconv.ParseUint(s, 10, 31); s != none && (err != nil || n == 0) {
		return "", fmt.Errorf("%q is no number of processes (like 100 or max)", s)
	}
	return s, nil
}

// cpuPeriod is the kernel's own, in microseconds.
const cpuPeriod = 100_000

// ParseCPU reads a percentage of one processor.
func ParseCPU(s string) (string, error) {
	if s == none {
		return none, nil
	}
	number, ok := strings.CutSuffix(s, "%")
	n, err := strconv.ParseUint(number, 10, 31)
	if !ok || err != nil || n == 0 {
		return "", fmt.Errorf("%q is no percentage of a processor (like 150%% or max)", s)
	}
	return fmt.Sprintf("%d %d", n*cpuPeriod/100, cpuPeriod), nil
}

// SetLimit sets one limit of g, and returns the new content of its file. The caller owns so many
// directories above g; in these SetLimit enables the controller.
func SetLimit(g *Group, l Limit, owned int) (now string, err error) {
	if err := EnableController(g, l.File, owned); err != nil {
		return "", err
	}
	err = g.Write(l.File, l.Value)
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("this kernel has no %s: %w", l.File, err)
	}
	if err != nil {
		return "", err
	}
	return ReadLimit(g, l.File)
}

// ReadLimit returns what a file says, as one line.
func ReadLimit(g *Group, file string) (string, error) {
	b, err := g.Read(file)
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ", "), err
}

// HandsDown reports whether groups in g could have all of the limits: g delegates the controllers, and has
// no processes of its own.
func HandsDown(g *Group, all []Limit) bool {
	procs, err := g.Read("cgroup.procs")
	return err == nil && len(procs) == 0 && !slices.ContainsFunc(all, func(l Limit) bool {
		return !lists(g, "cgroup.subtree_control", l.controller())
	})
}

// Controllers lists those that groups in a directory can have. The caller owns so many directories, dir and
// above it: their controllers can be enabled, unless dir has processes of its own. Without one, those count
// that dir hands down already.
func Controllers(dir *Group, owned int) []string {
	procs, err := dir.Read("cgroup.procs")
	isOurs := owned > 0 && err == nil && len(procs) == 0
	file := "cgroup.subtree_control"
	if isOurs {
		file = strings.Repeat("../", owned-1) + "cgroup.controllers"
	}
	list, _ := dir.Read(file) // none, if it can't be read
	return strings.Fields(string(list))
}

func lists(g *Group, file, controller string) bool {
	b, err := g.Read(file)
	return err == nil && slices.Contains(strings.Fields(string(b)), controller)
}

// EnableController enables the controller of a file for g, beginning at the outermost directory that the
// caller owns: it owns so many above g.
func EnableController(g *Group, file string, owned int) error {
	if owned > 0 {
		return handDown(g, "../", file, owned)
	}
	return requireController(g, "cgroup.controllers", file)
}

// HandDown is EnableController for groups that will be made in a directory, which counts as an owned one.
func HandDown(above *Group, file string, owned int) error {
	if owned > 0 {
		return handDown(above, "", file, owned)
	}
	return requireController(above, "cgroup.subtree_control", file)
}

// handDown enables a controller in so many directories. inner is the path of the innermost one, from g.
func handDown(g *Group, inner, file string, owned int) error {
	controller := Limit{File: file}.controller()
	outermost := strings.Repeat("../", owned-1) + inner
	if err := requireController(g, outermost+"cgroup.controllers", file); err != nil {
		return err
	}
	for up := owned - 1; up >= 0; up-- {
		dir := strings.Repeat("../", up) + inner
		if lists(g, dir+"cgroup.subtree_control", controller) {
			continue
		}
		err := g.Write(dir+"cgroup.subtree_control", "+"+controller)
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%s has processes beside its groups, and can't limit them by %s: %w",
				path.Join(g.path, dir), controller, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// requireController fails if a list of controllers does not have that of a file.
func requireController(g *Group, list, file string) error {
	controller := Limit{File: file}.controller()
	if lists(g, list, controller) {
		return nil
	}
	at := path.Join(g.path, path.Dir(list))
	return proc.Unsupported(fmt.Sprintf("%s has no controller %s", at, controller))
}
