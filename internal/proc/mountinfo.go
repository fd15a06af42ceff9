// SPDX-License-Identifier: Apache-2.0

package proc

import "bytes"

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
	var all []Mount
	for line := range bytes.Lines(mountinfo) {
		// Not bytes.Fields: a file system mounted with an empty source has an
		// empty field there.
		f := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		dash := dashAt(f)
		if dash < 0 || len(f) <= dash+superOptions || string(f[dash+superType]) != "cgroup2" {
			continue
		}
		all = append(all, Mount{
			Root:     unescapeOctal(f[mountRoot]),
			Target:   unescapeOctal(f[mountTarget]),
			ReadOnly: readOnly(f[mountOptions]) || readOnly(f[dash+superOptions]),
		})
	}
	return all
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
