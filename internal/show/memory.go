// SPDX-License-Identifier: Apache-2.0

//go:build linux

package show

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// figures are what a server uses now. A figure that is not known is nil.
type Figures struct {
	fleet.Usage
	memoryFrom memorySource
}

// memorySource is where the figure of a server's memory comes from.
type memorySource string

const (
	// fromGroup is the kernel's count of what was charged to the server's group.
	fromGroup memorySource = "group"
	// fromScope is the same of the scope around that, which has the supervisor in it too.
	fromScope memorySource = "scope"
	// fromMembers is a sum over the processes, where the kernel has not counted from the start.
	FromMembers memorySource = "members"
)

// measure returns an error for a server that has ended since it was listed.
func measure(s *fleet.Listed) (f Figures, err error) {
	if f.Usage, err = s.Usage(); err != nil {
		return f, err
	}
	f.Memory, f.memoryFrom = nil, fromScope
	dir := s.MemoryDirectory()
	if dir == s.Directory() {
		f.memoryFrom = fromGroup
	}
	if n := numberIn(dir, "memory.current"); n != nil && *n > 0 { // a zombie has no memory
		f.Memory = n
		return f, nil
	}
	f.memoryFrom = ""
	pids, err := s.Processes()
	f.AddMembers(pids)
	return f, err
}

// numberIn is nil if there is no such directory or file.
func numberIn(dir, file string) *uint64 {
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return parseNumber(strings.TrimSpace(string(text)))
}

// parseNumber returns nil for a text that is not one, such as "max".
func parseNumber(text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// addMembers sums up what the processes have: the private memory of each, and the files and shared memory of the
// process that has most of these, because many processes share the same pages.
func (f *Figures) AddMembers(pids []int) {
	var private, shared uint64
	for _, pid := range pids {
		m, err := proc.ReadMemory(pid)
		if err != nil {
			continue // it has ended
		}
		private += m.Resident - min(m.Shared, m.Resident)
		shared = max(shared, m.Shared)
	}
	if sum := private + shared; sum > 0 {
		f.Memory, f.PeakBytes, f.memoryFrom = &sum, nil, FromMembers
	}
}
