// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

// Figures are the counters and limits of a group; nil for a tree.
type Figures interface {
	MemoryPeak() *uint64
	MemoryMax() *uint64
	OOMKills() uint64
	EndsWhole() bool
	PidsRefused() (times uint64, limit *uint64)
	LimitsNow() map[string]string
}
