// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"slices"
	"strings"
)

// Mount is a place where the cgroup2 hierarchy is mounted.
type Mount struct {
	Root     string // which directory of the hierarchy: "/" for the root of the mounter's cgroup namespace
	Target   string // where it is seen
	ReadOnly bool   // the mount, or the whole file system
}

// The fields of a line of mountinfo: six, any number of optional ones, then "-"
// and three more.
const (
	mountRoot     = 3
	mountTarget   = 4
	mountOptions  = 5
	mountOptional = 6

	superType    = 1 // counted from the "-"
	superOptions = 3
)

// ParseCgroup2Mounts lists the cgroup2 mounts in the contents of
// /proc/PID/mountinfo, in the kernel's order: of two with the same Target the
// later hides the earlier. Lines that make no sense are left out.
func ParseCgroup2Mounts(mountinfo []byte) []Mount {
	return mounts(mountinfo, func(kind, _ string) bool { return kind == "cgroup2" })
}

// ParseCgroup1Mounts lists those of the hierarchy of version 1 that a controller is on.
func ParseCgroup1Mounts(mountinfo []byte, controller string) []Mount {
	return mounts(mountinfo, func(kind, options string) bool {
		return kind == "cgroup" && slices.Contains(strings.Split(options, ","), controller)
	})
}

func mounts(mountinfo []byte, wanted func(kind, options string) bool) []Mount {
	var all []Mount
	for line := range bytes.Lines(mountinfo) {
		if m, ok := parseMount(bytes.TrimSuffix(line, []byte("\n")), wanted); ok {
			all = append(all, m)
		}
	}
	return all
}

func parseMount(line []byte, wanted func(kind, options string) bool) (Mount, bool) {
	// Not bytes.Fields: a file system mounted with an empty source has an
	// empty field there.
	f := bytes.Split(line, []byte(" "))
	dash := dashAt(f)
	if dash < 0 || len(f) <= dash+superOptions || !wanted(string(f[dash+superType]), string(f[dash+superOptions])) {
		return Mount{}, false
	}
	return Mount{
		Root:     unescapeOctal(f[mountRoot]),
		Target:   unescapeOctal(f[mountTarget]),
		ReadOnly: readOnly(f[mountOptions]) || readOnly(f[dash+superOptions]),
	}, true
}

func dashAt(f [][]byte) int {
	for i := mountOptional; i < len(f); i++ {
		if string(f[i]) == "-" {
			return i
		}
	}
	return -1
}

// readOnly: the kernel writes ro or rw before all other options.
func readOnly(options []byte) bool {
	first, _, _ := bytes.Cut(options, []byte(","))
	return string(first) == "ro"
}

// unescapeOctal undoes \040, \011, \012 and \134, the bytes that the kernel
// escapes in a path of mountinfo. A backslash that begins none stays.
func unescapeOctal(b []byte) string {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if c, ok := octal(b); ok {
			out, b = append(out, c), b[4:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return string(out)
}

func octal(b []byte) (byte, bool) {
	if len(b) < 4 || b[0] != '\\' || b[1] > '3' {
		return 0, false
	}
	var v byte
	for _, c := range b[1:4] {
		if c < '0' || c > '7' {
			return 0, false
		}
		v = v<<3 | (c - '0')
	}
	return v, true
}
