// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Limits returns the limits that the flags and variables of wrapped servers have.
func (f Found) Limits() []settings.PlacedLimit {
	var placed []settings.PlacedLimit
	for _, c := range f.Files {
		for i := range c.Servers {
			s := &c.Servers[i]
			if s.State != wrapping.Wrapped || len(s.Prefix()) == 0 {
				continue
			}
			variable := func(name string) string { return s.Env[name] }
			for _, limit := range settings.LimitsOfRun(s.Argv[2:], variable) {
				place := fmt.Sprintf("%s:%d", c.Path, s.Line(c.document))
				placed = append(placed, settings.PlacedLimit{Limit: limit, Place: place})
			}
		}
	}
	return placed
}
