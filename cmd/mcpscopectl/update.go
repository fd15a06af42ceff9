// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strconv"

	"github.com/containerd/cgroups/v3/cgroup2"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/scope"
)

// update writes a limit by the library, if that is sound (figures.go says for what it is not).
// Package resources enables the controller before, and reads after whether the limit holds.
func update(s *scope.Listed) func(cgroup.Limit) (bool, error) {
	return func(l cgroup.Limit) (bool, error) {
		r := resourcesOf(l)
		if r == nil {
			return false, nil
		}
		m, err := manager(s)
		if err != nil {
			return false, err
		}
		return true, m.Update(r)
	}
}

// resourcesOf is nil for what the library does not write, or not as it has to be.
func resourcesOf(l cgroup.Limit) *cgroup2.Resources {
	number, err := strconv.ParseInt(l.Value, 10, 64)
	whole := err == nil && number > 0
	positive := uint64(max(number, 0))
	switch {
	case l.File == "cpu.max":
		return &cgroup2.Resources{CPU: &cgroup2.CPU{Max: cgroup2.CPUMax(l.Value)}}
	case l.File == "cpu.weight" && whole:
		return &cgroup2.Resources{CPU: &cgroup2.CPU{Weight: &positive}}
	case l.File == "cpuset.cpus":
		return &cgroup2.Resources{CPU: &cgroup2.CPU{Cpus: l.Value}}
	case l.File == "cpuset.mems":
		return &cgroup2.Resources{CPU: &cgroup2.CPU{Mems: l.Value}}
	case l.File == "pids.max" && l.None():
		return &cgroup2.Resources{Pids: &cgroup2.Pids{Max: -1}}
	case l.File == "pids.max" && whole:
		return &cgroup2.Resources{Pids: &cgroup2.Pids{Max: number}}
	case l.File == "memory.min" && err == nil:
		return &cgroup2.Resources{Memory: &cgroup2.Memory{Min: &number}}
	case l.File == "memory.low" && err == nil:
		return &cgroup2.Resources{Memory: &cgroup2.Memory{Low: &number}}
	case l.File == "memory.swap.max" && err == nil:
		return &cgroup2.Resources{Memory: &cgroup2.Memory{Swap: &number}}
	case l.File == "memory.oom.group" && err == nil:
		return &cgroup2.Resources{Memory: &cgroup2.Memory{OOMGroup: new(number == 1)}}
	}
	return nil
}
