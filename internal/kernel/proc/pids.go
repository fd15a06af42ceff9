// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// ParsePIDs parses cgroup.procs, cgroup.threads, or /proc/PID/task/TID/children. It returns each pid once and
// in ascending order: a process that left and returned during the read is listed twice. 0 stands for all
// processes outside our pid namespace. Only cgroup.kill reaches these, and kill(2) would signal our own
// process group.
func ParsePIDs(b []byte) ([]int, error) {
	var pids []int
	for text := range bytes.FieldsSeq(b) {
		// 31 bits and no sign: a negative number would be a process group to kill(2)
		n, err := strconv.ParseUint(string(text), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("parse pids: pid %q: %w", clip(text), errors.Unwrap(err))
		}
		pids = append(pids, int(n))
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}
