// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"strconv"
)

// parseFileLocks finds the soft limit RLIMIT_LOCKS in /proc/PID/limits. ok is false for "unlimited", and
// without such a line: the file of a zombie is empty.
func parseFileLocks(b []byte) (soft uint64, ok bool) {
	_, rest, _ := bytes.Cut(b, []byte("\nMax file locks "))
	number, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	soft, err := strconv.ParseUint(string(number), 10, 64)
	return soft, err == nil
}
