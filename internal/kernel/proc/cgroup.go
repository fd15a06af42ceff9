// SPDX-License-Identifier: Apache-2.0

package proc

import "bytes"

// ParseCgroup finds the cgroup2 line, "0::PATH", in the contents of /proc/PID/cgroup.
//
// PATH is verbatim: nothing in it is escaped (a backslash is a backslash, also in "\012"). It contains any
// byte but NUL and newline. It is relative to the reader's cgroup namespace, and begins with "/.." for a
// process outside it. That of a zombie in a removed cgroup ends in " (deleted)".
func ParseCgroup(b []byte) (path string, ok bool) {
	for line := range bytes.Lines(b) {
		p, found := bytes.CutPrefix(line, []byte("0::/"))
		if found {
			return "/" + string(bytes.TrimSuffix(p, []byte("\n"))), true
		}
	}
	return "", false
}
