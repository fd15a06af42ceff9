// SPDX-License-Identifier: Apache-2.0

// Package admission has the start of a server wait until enough memory is free. It reads what the kernel
// counts now: servers that start at the same moment see the same figure.
package admission

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Free is the memory that a new server can have without swapping.
type Free struct {
	Bytes uint64
	// Group is the path of the cgroup whose limit leaves the least, from the root of the mount. It is "" for
	// the host.
	Group string
}

// ReadFree reads what is free on the host, and below the limits of a cgroup and of all above it up to the
// root of the mount. above is the group in which the server's own will be, or nil.
func ReadFree(root, above *cgroup.Group) (Free, error) {
	onHost, err := available()
	if err != nil {
		return Free{}, err
	}
	least := Free{Bytes: onHost}
	if above == nil {
		return least, nil
	}
	here, err := above.Child(".")
	for err == nil {
		free, isLimited := freeBelow(here)
		if isLimited && free < least.Bytes {
			least.Bytes = free
			least.Group = strings.TrimPrefix(here.Path(), root.Path())
			least.Group = "/" + strings.TrimPrefix(least.Group, "/")
		}
		if here.Same(root) {
			break
		}
		var parent *cgroup.Group
		parent, err = here.Parent()
		_ = here.Close() // a directory
		here = parent
	}
	_ = here.Close()                                // a directory, or nil
	if err != nil && !errors.Is(err, unix.ENOENT) { // removed meanwhile: the start will report it
		return Free{}, err
	}
	return least, nil
}

// available is MemAvailable of proc_meminfo(5): the kernel's own estimate.
func available() (uint64, error) {
	const file = "/proc/meminfo"
	text, err := proc.ReadAt(unix.AT_FDCWD, file, proc.NoLimit)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	free, err := parseAvailable(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return free, nil
}

func parseAvailable(text []byte) (uint64, error) {
	for line := range bytes.Lines(text) {
		value, found := bytes.CutPrefix(line, []byte("MemAvailable:"))
		if !found {
			continue
		}
		number := strings.TrimSuffix(strings.TrimSpace(string(value)), " kB")
		kilobytes, err := strconv.ParseUint(number, 10, 54)
		if err != nil {
			return 0, fmt.Errorf("read MemAvailable: %w", err)
		}
		return kilobytes << 10, nil
	}
	return 0, fmt.Errorf("there is no MemAvailable: %w", errors.ErrUnsupported)
}

// freeBelow computes the memory that the limits of a group leave. memory.high counts, too: above it members
// are slowed down.
func freeBelow(g *cgroup.Group) (free uint64, isLimited bool) {
	used := g.Number("memory.current")
	if used == nil { // the root, or no memory controller
		return 0, false
	}
	var limit *uint64
	for _, file := range []string{"memory.max", "memory.high"} {
		n := g.Number(file)
		if n != nil && (limit == nil || *n < *limit) {
			limit = n
		}
	}
	if limit == nil {
		return 0, false
	}
	stat, _ := g.Read("memory.stat") // without it all memory counts as used
	kept := *used - min(*used, reclaimable(stat))
	return *limit - min(*limit, kept), true
}

// reclaimable adds up memory that MemAvailable counts as free, too: pages of files, without shared memory,
// and slabs that the kernel can drop. Otherwise a group that has read many files would always be full.
func reclaimable(stat []byte) (sum uint64) {
	for _, key := range []string{"active_file", "inactive_file", "slab_reclaimable"} {
		n, _ := proc.Keyed(stat, key) // 0 without the key
		sum += n
	}
	return sum
}
