// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
)

// ParsePIDs parses cgroup.procs or cgroup.threads: one pid a line; they are returned in ascending order.
// A pid may be listed twice, when its process left and came back during the
// read; it is returned once. 0 stands for every process that our pid namespace
// does not know, and is returned once too: those can be killed by cgroup.kill,
// but not by number, and kill(2) takes 0 for one's own process group.
func ParsePIDs(b []byte) ([]int, error) {
	if len(b) == 0 {
		return nil, nil // an empty group, which Split takes for one empty line
	}
	pids, err := parsePIDs(bytes.SplitSeq(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")))
	if err != nil {
		return nil, fmt.Errorf("parse pids: %w", err)
	}
	return pids, nil
}

// parseChildren parses /proc/PID/task/TID/children: pids with a blank behind
// each.
func parseChildren(b []byte) ([]int, error) {
	pids, err := parsePIDs(bytes.FieldsSeq(b))
	if err != nil {
		return nil, fmt.Errorf("parse children: %w", err)
	}
	return pids, nil
}

func parsePIDs(texts iter.Seq[[]byte]) ([]int, error) {
	var pids []int
	for text := range texts {
		// 31 bits and no sign: a negative number would be a process group
		// to kill(2).
		n, err := strconv.ParseUint(string(text), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("pid %q: %w", clip(text), errors.Unwrap(err))
		}
		pids = append(pids, int(n))
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}
