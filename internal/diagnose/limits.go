// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/settings"
)

// readLimits compares the limits for all servers in settings files with the controllers of the backend.
// Without them mcpscope run fails, unless limits is best-effort.
func (d *diagnosis) readLimits() {
	v := settings.Defaults()
	v.FromFile(settings.ReadFiles().For(""))
	d.limitsMayFail = v.Limits.BestEffort
	for _, t := range d.Backends {
		if t.Backend != d.Backend {
			continue
		}
		for _, limit := range v.Inapplicable(t.Controllers) {
			controller, _, _ := strings.Cut(limit.File, ".")
			const text = "%s cannot be applied: %s has no controller %s"
			d.Limits = append(d.Limits, fmt.Sprintf(text, limit, t.Backend, controller))
		}
	}
}
