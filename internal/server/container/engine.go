// SPDX-License-Identifier: Apache-2.0

//go:build linux

package container

import (
	"fmt"
	"strconv"

	"github.com/mcpscope/mcpscope/cgroup"
)

// engineFlags are the flags of an engine for limits. With BestEffort there are no flags: a flag that fails
// keeps the engine from running the container.
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

// number reads a value of a cgroup file; ok is false for "max".
func number(value string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(value, 10, 62)
	return n, err == nil
}
