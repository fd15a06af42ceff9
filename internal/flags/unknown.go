// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/similar"
)

// leastTyped is the length from which a name is compared: a shorter one is the beginning of many.
const leastTyped = 3

// UnknownError is the error about a flag that the command does not have.
type UnknownError struct {
	As   string   // with its dashes
	Near []string // flags that may be meant
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown flag %q%s", e.As, similar.Meant(e.Near))
}

func unknown(known []Flag, as string) error {
	typed := strings.TrimLeft(as, "-")
	if len(typed) < leastTyped {
		return &UnknownError{As: as}
	}
	var near []string
	for _, flag := range known {
		if similar.Is(typed, flag.Name) {
			near = append(near, Dashes(flag.Name))
		}
	}
	return &UnknownError{As: as, Near: near}
}
