// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/similar"
)

// A name is compared from three letters on: a shorter one is the beginning of many, or like others. Of two
// letters the flags that begin with them are meant, if these are few.
const (
	leastCompared = 3
	leastBegun    = 2
	fewBegun      = 2
)

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
	var near, begun []string
	for _, flag := range known {
		if similar.Is(typed, flag.Name) {
			near = append(near, Dashes(flag.Name))
		}
		if strings.HasPrefix(flag.Name, typed) {
			begun = append(begun, Dashes(flag.Name))
		}
	}
	switch {
	case len(typed) >= leastCompared:
		return &UnknownError{As: as, Near: near}
	case len(typed) == leastBegun && len(begun) <= fewBegun:
		return &UnknownError{As: as, Near: begun}
	}
	return &UnknownError{As: as}
}
