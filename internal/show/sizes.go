// SPDX-License-Identifier: Apache-2.0

//go:build linux

package show

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// humanBytes is a size in at most five characters: 0B, 1023B, 1.5K, 320M, 2.0G.
func HumanBytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	v := float64(n)
	for _, unit := range "KMGTPE" {
		v /= 1024
		switch {
		case v < 9.95:
			return fmt.Sprintf("%.1f%c", v, unit)
		case v < 1023.5 || unit == 'E':
			return fmt.Sprintf("%.0f%c", v, unit)
		}
	}
	return ""
}

func HumanMemory(n *uint64) string {
	if n == nil {
		return "-"
	}
	return HumanBytes(*n)
}

func HumanSeconds(s float64) string { return humanDuration(time.Duration(s * float64(time.Second))) }

// humanDuration has the two largest units: 1.2s, 42s, 3m10s, 5h2m, 12d3h.
func humanDuration(d time.Duration) string {
	switch s := int(d / time.Second); {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", s)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", s/60, s%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
	}
}

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// memoryText has the limit, if there is one. "~" marks what the kernel has not counted.
func MemoryText(v Server) string {
	text := HumanMemory(v.Memory)
	if v.MemoryFrom == FromMembers {
		text = "~" + text
	}
	if most := v.Limit("memory.max"); most != nil {
		text += "/" + HumanBytes(*most)
	}
	return text
}
