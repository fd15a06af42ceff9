package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Resident is how many bytes of memory a process has, shared ones too (/proc/PID/statm); 0 for
// a zombie.
func Resident(pid int) (uint64, error) {
	b, err := readPID(pid, "statm")
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0, fmt.Errorf("parse statm of %d: %q", pid, clip(b))
	}
	pages, err := strconv.ParseUint(string(f[1]), 10, 52)
	if err != nil {
		return 0, fmt.Errorf("parse statm of %d: %w", pid, reason(err))
	}
	return pages * uint64(os.Getpagesize()), nil
}
