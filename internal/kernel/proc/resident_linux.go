// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Memory is the physical memory of a process, in bytes.
type Memory struct {
	Resident uint64
	Shared   uint64 // part of Resident: pages of files, and shared memory
}

// ReadMemory reads /proc/PID/statm. A zombie has no memory.
func ReadMemory(pid int) (m Memory, err error) {
	b, err := readPID(pid, "statm")
	if err != nil {
		return m, err
	}
	f := bytes.Fields(b)
	if len(f) < 3 {
		return m, fmt.Errorf("parse statm of %d: %q", pid, clip(b))
	}
	for i, to := range []*uint64{&m.Resident, &m.Shared} {
		pages, err := strconv.ParseUint(string(f[1+i]), 10, 52)
		if err != nil {
			return m, fmt.Errorf("parse statm of %d: %w", pid, err)
		}
		*to = pages * uint64(os.Getpagesize())
	}
	return m, nil
}
