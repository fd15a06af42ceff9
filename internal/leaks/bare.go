// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// Bare is the memory, in bytes, that this user's processes of configured servers outside any group have each
// for themselves.
func Bare() (memory uint64) {
	servers, _ := fleet.ListOwn() // as far as they can be listed
	defer selection.Close(servers)
	inside := grouped(servers)
	// Not those of other projects: wrap does not read them, so a restart of their clients changes nothing.
	known := configured(clientconfig.NewSearch().Everywhere()) // as far as they can be read
	_ = proc.Each(func(pid int) bool {                         // no process, without /proc
		status, err := proc.ReadStatus(pid)
		isOwn := err == nil && status.UID[0] == os.Getuid() // servers of other users are not in the list
		server, _ := known.find(arguments(pid), "")
		if isOwn && server != nil && !slices.Contains(inside, pid) {
			m := proc.ReadMemory(pid)
			memory += m.Resident - m.Shared
		}
		return true
	})
	return memory
}
