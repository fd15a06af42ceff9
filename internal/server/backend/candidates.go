// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"os"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Candidates lists what auto tries for the calling user, the best first.
func Candidates() []names.Backend {
	manager := names.SystemdUser
	if os.Getuid() == 0 { // the nearer one
		manager = names.SystemdSystem
	}
	return []names.Backend{manager, names.Delegated, names.Cgroup, names.Tree}
}
