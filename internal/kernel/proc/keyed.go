// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"strconv"
)

// Keyed finds one value in a flat-keyed cgroup file (cgroup.events, cpu.stat, memory.events): lines of "KEY
// VALUE". It does not allocate: the wait for an empty group calls it often.
func Keyed(b []byte, key string) (value uint64, ok bool) {
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		n := len(key)
		if n == 0 || len(line) <= n || line[n] != ' ' || string(line[:n]) != key {
			continue
		}
		v, err := strconv.ParseUint(string(line[n+1:]), 10, 64)
		if err != nil {
			return 0, false // v would be the largest number for one that is too large
		}
		return v, true
	}
	return 0, false
}
