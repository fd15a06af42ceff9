// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"math"
	"strconv"
)

// LimitLocks is the name of RLIMIT_LOCKS in /proc/PID/limits.
const LimitLocks = "Max file locks"

// ParseLimit finds a soft limit in /proc/PID/limits. "unlimited" is RLIM_INFINITY. ok is false without such a
// line: the file of a zombie is empty.
func ParseLimit(b []byte, name string) (soft uint64, ok bool) {
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		rest, found := bytes.CutPrefix(line, []byte(name))
		words := bytes.Fields(rest)
		if !found || len(words) < 2 || rest[0] != ' ' {
			continue
		}
		if string(words[0]) == "unlimited" {
			return math.MaxUint64, true
		}
		soft, err := strconv.ParseUint(string(words[0]), 10, 64)
		return soft, err == nil
	}
	return 0, false
}
