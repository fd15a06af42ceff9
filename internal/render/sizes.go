// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"github.com/mcpscope/mcpscope/internal/cli"
)

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
		text = cli.HumanBytes(*v.Memory)
	}
	if v.MemoryFrom == FromMembers {
		text = "~" + text
	}
	if v.IdleSince != nil && v.Memory != nil && v.Before > *v.Memory {
		text += " (" + cli.HumanBytes(v.Before) + ")"
	}
	limit := v.Limit("memory.max")
	if limit != nil {
		text += "/" + cli.HumanBytes(*limit)
	}
	return text
}
