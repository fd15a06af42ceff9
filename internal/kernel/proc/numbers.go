// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"cmp"
	"strconv"
)

// numbers converts the fields of one file, and keeps the first error.
type numbers struct{ err error }

// int converts pids and counts, which have 32 bits in the kernel.
func (n *numbers) int(text []byte) int {
	v, err := strconv.ParseInt(string(text), 10, 32)
	n.err = cmp.Or(n.err, err)
	return int(v)
}

func (n *numbers) unsigned(text []byte) uint64 {
	v, err := strconv.ParseUint(string(text), 10, 64)
	n.err = cmp.Or(n.err, err)
	return v
}

// clip keeps the error about a malformed line short.
func clip(b []byte) []byte { return b[:min(len(b), 64)] }
