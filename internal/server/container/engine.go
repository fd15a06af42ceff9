// SPDX-License-Identifier: Apache-2.0

//go:build linux

package container

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/cgroup"
)

// engineFlags are the flags of a container engine for limits that it knows. One that can't be had keeps it from running
// anything, so there are none of those that may as well be missing.
func engineFlags(limits cgroup.Limits) (flags []string) {
	value := map[string]string{}
	if limits.BestEffort {
		return nil
	}
	for _, l := range limits.Files {
		value[l.File] = l.Value
	}
	memory, limited := number(value["memory.max"])
	if limited {
		flags = append(flags, fmt.Sprintf("--memory=%db", memory))
	}
	if swap, ok := number(value["memory.swap.max"]); ok && limited {
		flags = append(flags, fmt.Sprintf("--memory-swap=%db", memory+swap)) // which is both together
	}
	var quota, period uint64
	if n, _ := fmt.Sscan(value["cpu.max"], &quota, &period); n == 2 && period > 0 {
		flags = append(flags, fmt.Sprintf("--cpus=%.3f", float64(quota)/float64(period)))
	}
	if n, ok := number(value["pids.max"]); ok {
		flags = append(flags, fmt.Sprintf("--pids-limit=%d", n))
	}
	return flags
}

// number reads what a file of the kernel has; ok is false for no limit.
func number(value string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(value, 10, 62)
	return n, err == nil
}
