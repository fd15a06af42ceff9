// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"strconv"
)

// Mapping is a range of addresses.
type Mapping struct{ From, To uintptr }

// PrivateMemory lists the writable private mappings of this process but the stack, none without /proc.
func PrivateMemory() (all []Mapping) {
	maps, _ := read("/proc/self/maps", NoLimit)
	for line := range bytes.Lines(maps) { // "7f00-7f80 rw-p …"
		addresses, rest, _ := bytes.Cut(line, []byte(" "))
		first, last, _ := bytes.Cut(addresses, []byte("-"))
		from, err := strconv.ParseUint(string(first), 16, 64)
		to, err2 := strconv.ParseUint(string(last), 16, 64)
		stack := bytes.HasSuffix(rest, []byte("[stack]\n"))
		if err == nil && err2 == nil && bytes.HasPrefix(rest, []byte("rw-p")) && !stack {
			all = append(all, Mapping{uintptr(from), uintptr(to)})
		}
	}
	return all
}
