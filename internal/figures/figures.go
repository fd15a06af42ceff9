// SPDX-License-Identifier: Apache-2.0

// Package figures reads what the kernel counts for the control group of a server, by containerd/cgroups.
//
// That library reads a file that is missing as 0. So a figure is nil here without its file. It opens groups
// by path: those of other users, who may remove and make directories meanwhile, are read by descriptors
// elsewhere (package group), as is all that has no place in it: the life cycle, memory.peak, and limits in
// any file.
package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
)

// CPU is the time of a group and of all below it, since it was made.
type CPU struct {
	User      float64  `json:"user_seconds"`
	System    float64  `json:"system_seconds"`
	Throttled *float64 `json:"throttled_seconds,omitempty"` // with a limit; nil without the cpu controller
}

// Memory is the memory that is charged to a group, in bytes.
type Memory struct {
	Anonymous uint64  `json:"anonymous_bytes"`
	Files     uint64  `json:"file_bytes"`           // cached pages of files, and shared memory
	Kernel    uint64  `json:"kernel_bytes"`         // stacks and slabs
	Swapped   *uint64 `json:"swap_bytes,omitempty"` // nil where the kernel does not account swap
}

// ReadCPU reads cpu.stat of the group in that directory.
func ReadCPU(dir string) (CPU, error) {
	group, err := load(dir, "cpu.stat")
	if err != nil {
		return CPU{}, err
	}
	read, err := group.StatFiltered(cgroup2.StatCPU)
	if err != nil {
		return CPU{}, fmt.Errorf("read the CPU time: %w", err)
	}
	c := CPU{User: seconds(read.CPU.UserUsec), System: seconds(read.CPU.SystemUsec)}
	if exists(dir, "cpu.max") {
		throttled := seconds(read.CPU.ThrottledUsec)
		c.Throttled = &throttled
	}
	return c, nil
}

// ReadMemory reads memory.stat of the group in that directory. The error is fs.ErrNotExist without the memory
// controller.
func ReadMemory(dir string) (Memory, error) {
	group, err := load(dir, "memory.stat")
	if err != nil {
		return Memory{}, err
	}
	read, err := group.StatFiltered(cgroup2.StatMemory)
	if err != nil {
		return Memory{}, fmt.Errorf("read the memory: %w", err)
	}
	m := Memory{
		Anonymous: read.Memory.Anon,
		Files:     read.Memory.File,
		Kernel:    read.Memory.KernelStack + read.Memory.Slab,
	}
	if exists(dir, "memory.swap.current") {
		m.Swapped = &read.Memory.SwapUsage
	}
	return m, nil
}

// load returns the group of a directory that has that file.
func load(dir, file string) (*cgroup2.Manager, error) {
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		return nil, err
	}
	group, err := cgroup2.Load("/"+filepath.Base(dir), cgroup2.WithMountpoint(filepath.Dir(dir)))
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", dir, err)
	}
	return group, nil
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

func seconds(microseconds uint64) float64 {
	return (time.Duration(microseconds) * time.Microsecond).Seconds()
}
