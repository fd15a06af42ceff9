// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/backend"
)

// Protection returns in one line what servers lack on this host, or "" if they lack nothing. It runs a server
// with each backend until one works, as mcpscope run does.
func Protection(installed Programs) string {
	for _, b := range backend.Candidates() {
		t := tryBackend(installed, b)
		if t.Works {
			return t.protection()
		}
	}
	return "none, because no backend works"
}

func (t Trial) protection() string {
	missing := t.missingControllers()
	switch {
	case !t.Group:
		return fmt.Sprintf("cgroup: no (%s); limits: no; freeze of idle servers: no", t.Backend)
	case len(missing) == 0:
		return ""
	}
	limits := "no"
	if possible := t.limitable(); len(possible) > 0 {
		limits = strings.Join(possible, ", ")
	}
	const text = "cgroup: yes; limits: %s (no controller for %s); freeze: yes"
	return fmt.Sprintf(text, limits, strings.Join(missing, ", "))
}

// limitable returns those of limitControllers that servers get in this trial.
func (t Trial) limitable() []string {
	return slices.DeleteFunc(slices.Clone(t.Controllers), func(controller string) bool {
		return !slices.Contains(limitControllers, controller)
	})
}
