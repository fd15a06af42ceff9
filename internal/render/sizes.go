// SPDX-License-Identifier: Apache-2.0

package render

import "fmt"

// HumanBytes is a size in at most five characters: 0B, 1023B, 1.5K, 320M, 2.0G.
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

// HumanSeconds has the two largest units: 1.2s, 42s, 3m10s, 5h2m, 12d3h.
func HumanSeconds(seconds float64) string {
	switch s := int(seconds); {
	case seconds < 10:
		return fmt.Sprintf("%.1fs", seconds)
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%dh", s/86400, s/3600%24)
	}
}

// MemoryText has the limit, if there is one, and in parentheses the earlier memory of an idle server.
// "~" marks a sum over processes.
func MemoryText(v Server) string {
	text := "-"
	if v.Memory != nil {
		text = HumanBytes(*v.Memory)
	}
	if v.MemoryFrom == FromMembers {
		text = "~" + text
	}
	if v.IdleSince != nil && v.Memory != nil && v.Before > *v.Memory {
		text += " (" + HumanBytes(v.Before) + ")"
	}
	limit := v.Limit("memory.max")
	if limit != nil {
		text += "/" + HumanBytes(*limit)
	}
	return text
}
