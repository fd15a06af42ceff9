// SPDX-License-Identifier: Apache-2.0

package proc

import "bytes"

// deletedMark is the suffix that the kernel appends to the path of a removed cgroup. Only an unreaped process
// can be in one: rmdir refuses a cgroup with a live member.
const deletedMark = " (deleted)"

// ParseCgroup finds the cgroup2 line, "0::PATH", in the contents of /proc/PID/cgroup.
//
// PATH is verbatim: nothing in it is escaped (a backslash is a backslash, also in "\012"). It contains any
// byte but NUL and newline. It is relative to the reader's cgroup namespace, and begins with "/.." for a
// process outside it.
//
// This text does not distinguish a directory whose own name ends in " (deleted)" from a removed one;
// [ReadCgroup] checks whether the process is alive.
func ParseCgroup(b []byte) (path string, deleted, ok bool) {
	for line := range bytes.Lines(b) {
		p, found := bytes.CutPrefix(line, []byte("0::"))
		if !found {
			continue
		}
		p = bytes.TrimSuffix(p, []byte("\n"))
		p, deleted = bytes.CutSuffix(p, []byte(deletedMark))
		if len(p) > 0 && p[0] == '/' {
			return string(p), deleted, true
		}
	}
	return "", false, false
}
