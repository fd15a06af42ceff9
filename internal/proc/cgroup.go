// SPDX-License-Identifier: Apache-2.0

package proc

import "bytes"

// deletedMark is what the kernel puts behind the path of a removed cgroup.
// Only a process that is dead but not yet reaped can be in one: rmdir refuses
// a cgroup with a live member.
const deletedMark = " (deleted)"

// ParseCgroup finds the cgroup2 line, "0::PATH", in the contents of
// /proc/PID/cgroup; ok is false where there is none.
//
// PATH is verbatim: nothing in it is escaped (a backslash is a backslash, also
// in "\012"), it may hold any byte but NUL and newline, for the kernel refuses
// to create a cgroup with a newline in its name, exactly to keep this file
// parsable. It is relative to the reader's cgroup namespace and begins with
// "/.." for a process outside of that.
//
// A directory whose own name ends in " (deleted)" can't be told from a removed
// one by this text; [ReadCgroup] asks whether the process is alive.
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
