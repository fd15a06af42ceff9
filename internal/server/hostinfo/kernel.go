// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hostinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
)

// Kernel is what runs, and what of it we miss.
type Kernel struct {
	Release string `json:"release"`
	Lacks   []Lack `json:"lacks,omitempty"`
}

// Lack is something that the kernel, or a filter in front of it, does not do for us.
type Lack struct {
	Feature string `json:"feature"`
	Since   string `json:"since"` // the kernel that brought it, e.g. "Linux 5.14"
	// Refused means that the kernel is new enough: a filter (seccomp) is in the way.
	Refused bool   `json:"refused"`
	Then    string `json:"then"` // what that means here
	// Needed: no server can be run without it.
	Needed bool `json:"needed"`
}

// version of a kernel.
type version struct{ major, minor int }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

func (v version) String() string { return fmt.Sprintf("Linux %d.%d", v.major, v.minor) }

// feature is one that we use. missing tries it; nil means that the version alone tells.
type feature struct {
	name    string
	since   version
	missing func() bool
	then    string
	needed  bool
}

// NeededLacks are what makes it impossible to run a server here.
func NeededLacks() []Lack {
	return slices.DeleteFunc(kernelInfo(hierarchy.Position{}).Lacks, func(l Lack) bool { return !l.Needed })
}

func kernelInfo(here hierarchy.Position) Kernel {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Kernel{}
	}
	k := Kernel{Release: unix.ByteSliceToString(name.Release[:])}
	running := parseVersion(k.Release)
	for _, f := range features(here) {
		old := running.before(f.since)
		if f.missing == nil && !old || f.missing != nil && !f.missing() {
			continue
		}
		k.Lacks = append(k.Lacks, Lack{Feature: f.name, Since: f.since.String(), Refused: !old, Then: f.then, Needed: f.needed})
	}
	return k
}

// parseVersion reads "6.18.5-1-amd64". What is no version counts as a new one: then it
// is what was tried that tells.
func parseVersion(release string) version {
	var v version
	if _, err := fmt.Sscanf(release, "%d.%d", &v.major, &v.minor); err != nil {
		return version{1 << 30, 0}
	}
	return v
}

func features(here hierarchy.Position) []feature {
	return []feature{
		{name: "pidfd_send_signal", since: version{5, 1},
			missing: func() bool { return unavailable(unix.SYS_PIDFD_SEND_SIGNAL, bad, 0, 0, 0) },
			then:    "nobody is asked by SIGTERM before the kill, nor killed outside of the group"},
		{name: "cgroup.freeze", since: version{5, 2}, missing: lacksFile(here, "cgroup.freeze"),
			then: "members are killed without being frozen first"},
		{name: "pidfd_open", since: version{5, 3},
			missing: func() bool { return unavailable(unix.SYS_PIDFD_OPEN, bad, 0) },
			then:    "no server can be run", needed: true},
		{name: "clone3", since: version{5, 3},
			missing: func() bool { return unavailable(unix.SYS_CLONE3, 0, 0) },
			then:    "processes join their group before they execute anything, instead of being born in it"},
		{name: "attributes of cgroups", since: version{5, 7}, then: "no server can be run in a group", needed: true},
		{name: "cgroup.kill", since: version{5, 14}, missing: lacksFile(here, "cgroup.kill"),
			then: "members are frozen, then killed one by one"},
	}
}

// bad is a descriptor, a pid and a pointer that nobody has.
const bad = ^uintptr(0)

// unavailable makes a system call with arguments that it can't accept, so that it has
// no effect where it exists. ENOSYS is an old kernel or a filter, EPERM a filter.
func unavailable(call uintptr, args ...uintptr) bool {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(call, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno == unix.ENOSYS || errno == unix.EPERM
}

// lacksFile looks for an interface file in a group that we can see: our own, or, where
// that is the root of the hierarchy, which lacks most of them, one below it. Without
// such a group the version has to tell: it returns nil.
func lacksFile(here hierarchy.Position, file string) func() bool {
	g := anyGroup(here)
	if g == nil {
		return nil
	}
	defer g.Close()
	_, err := g.Read(file) // cgroup.kill is there, but can't be read
	missing := errors.Is(err, fs.ErrNotExist)
	if _, err := g.Read("cgroup.procs"); err != nil && missing {
		return nil // the group was removed just now, and with it every file
	}
	return func() bool { return missing }
}

func anyGroup(here hierarchy.Position) *cgroup.Group {
	if here.Root == nil {
		return nil
	}
	if own := strings.TrimPrefix(here.Path, "/"); own != "" {
		g, _ := here.Root.Child(own) // nil if it can't be opened
		return g
	}
	below, _ := here.Root.Children()
	for _, dir := range below {
		if g, err := here.Root.Child(dir); err == nil {
			return g
		}
	}
	return nil
}
