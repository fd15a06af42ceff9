// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Limits returns the limits that the flags and variables of wrapped servers have. With limits in settings
// files those may fail, too.
func (f Found) Limits(files *settings.FileSettings) []settings.PlacedLimit {
	var placed []settings.PlacedLimit
	for _, c := range f.Files {
		for i := range c.Servers {
			s := &c.Servers[i]
			if s.State != wrapping.Wrapped || len(s.Prefix()) == 0 {
				continue
			}
			variable := func(name string) string { return s.Env[name] }
			limits, mayFail := files.LimitsOfRun(s.Argv[2:], variable)
			for _, limit := range limits {
				place := fmt.Sprintf("%s:%d", c.Path, s.Line(c.document))
				placed = append(placed, settings.PlacedLimit{Limit: limit, Place: place, MayFail: mayFail})
			}
		}
	}
	return placed
}
