// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"cmp"
	"strconv"
)

// numbers converts the fields of one file, and keeps the first failure, so that a parser reads as a list of fields.
type numbers struct{ err error }

// int is for pids and counts: 32 bits wide in the kernel, and -1 where a process of no session is asked for its session.
func (n *numbers) int(text []byte) int {
	v, err := strconv.ParseInt(string(text), 10, 32)
	n.err = cmp.Or(n.err, err)
	return int(v)
}

func (n *numbers) unsigned(text []byte, base int) uint64 {
	v, err := strconv.ParseUint(string(text), base, 64)
	n.err = cmp.Or(n.err, err)
	return v
}

// clip keeps an error about a line that nobody expected readable.
func clip(b []byte) []byte {
	return b[:min(len(b), 64)]
}
