// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
)

// ParseDuration reads a Go duration that may begin with a number of days: 1d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, some := strings.Cut(s, "d")
	if !some {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(fmt.Sprintf("%dh%s", 24*n, rest))
}

// ParseGrace reads a grace period: a Go duration that is not negative, 0, or "infinity".
func ParseGrace(s string) (time.Duration, error) {
	if s == "infinity" {
		return freeze.Forever, nil
	}
	d, err := ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration (like 1.2s, 500ms, 1d, 0 or infinity)", s)
	}
	return min(d, graceMost), nil
}

// graceMost is 73 years: sums of graces fit a time.Duration.
const graceMost time.Duration = math.MaxInt64 / 4

// ParseLimit reads a duration above zero; "0" and "infinity" are no limit, which is 0.
func ParseLimit(s string) (time.Duration, error) {
	d, err := ParseGrace(s)
	return max(d, 0), err
}
