// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

// Figures are the counters and limits of a group. A number is nil without its controller.
type Figures struct {
	MemoryPeak  *uint64 // bytes, as MemoryMax
	MemoryMax   *uint64
	OOMKills    uint64 // members that the kernel has killed for lack of memory
	EndsWhole   bool   // the kernel kills the whole group when it is out of memory
	PIDsRefused uint64 // failed forks
	PIDsMax     *uint64
	Limits      map[string]string // that were set, by their files
}

// Exhausted reports whether the kernel has killed the whole group. f is nil for a tree.
func (f *Figures) Exhausted() bool { return f != nil && f.EndsWhole && f.OOMKills > 0 }
