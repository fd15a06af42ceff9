// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/mcpscope/mcpscope/cgroup"
)

// PlacedLimit is a limit of servers, and where a person has written it.
type PlacedLimit struct {
	cgroup.Limit
	Place string // FILE:LINE
}

// Limits returns the limits of [defaults] and of each [server."NAME"], in the order of the files. It leaves
// out one that the same section of a later file overrides.
func (c *FileSettings) Limits() []PlacedLimit {
	var limits []PlacedLimit
	for i, v := range c.values {
		overrides := func(later FileValue) bool { return later.key == v.key && later.pattern == v.pattern }
		if slices.ContainsFunc(c.values[i+1:], overrides) {
			continue
		}
		fromValue := Defaults() // without a limit, unless the value is one
		fromValue.FromFile(map[string]FileValue{v.key: v})
		for _, limit := range fromValue.Limits.Files {
			limits = append(limits, PlacedLimit{Limit: limit, Place: fmt.Sprintf("%s:%d", v.File, v.Line)})
		}
	}
	return limits
}

// LimitsOfRun returns the limits in the flags and variables of one mcpscope run, without those of files. A
// command line with a mistake starts nothing, and so has no limits.
func LimitsOfRun(args []string, getenv func(string) string) []cgroup.Limit {
	v := Defaults()
	if _, _, err := v.parse(Run, args, getenv); err != nil {
		return nil
	}
	return v.Limits.Files
}

// IsApplicable reports whether a group with these controllers can have the limit.
func (l PlacedLimit) IsApplicable(controllers []string) bool {
	return isApplicable(l.Limit, controllers)
}

// ParseFree reads a size of memory that has to be free; 0 asks for nothing.
func ParseFree(s string) (uint64, error) {
	if s == "0" {
		return 0, nil
	}
	text, err := cgroup.ParseMemory(s)
	if err != nil {
		return 0, err
	}
	size, err := strconv.ParseUint(text, 10, 64)
	if err != nil { // "max"
		return 0, fmt.Errorf("%q is no size (like 512M or 2G)", s)
	}
	return size, nil
}
