// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// addGateways finds gateways that run below this mcpscope, however they were started: by a script, for
// example.
func (s *search) addGateways(uid int, sudo string) {
	for _, g := range gw.List(uid) {
		if !s.isRunBy(g.Watcher) {
			continue
		}
		place, _ := proc.ReadCgroup(g.PID) // "" if it has ended
		remedy := ""
		if unit, _, ok := systemd.UnitOf(place, os.Getuid()); ok {
			place = unit
			remedy = sudo + "systemctl cat " + unit
		}
		if !s.hasUnit(place) {
			running := fmt.Sprintf("%s[%d] in %s", g.Name, g.PID, place)
			s.add(running, "a gateway that runs below mcpscope", remedy)
		}
	}
}

// hasUnit reports whether a file of the unit was found.
func (s *search) hasUnit(unit string) bool {
	return slices.ContainsFunc(s.uses, func(use Use) bool {
		return strings.Contains(use.Text, "/"+unit+".d/") || strings.Contains(use.Text, "/"+unit+":")
	})
}

// isRunBy reports whether a process executes the runner, also one that an upgrade has replaced.
func (s *search) isRunBy(pid int) bool {
	link := "/proc/" + strconv.Itoa(pid) + "/exe"
	path, err := os.Readlink(link)
	if err == nil && strings.TrimSuffix(path, " (deleted)") == s.runner {
		return true
	}
	return isSameFile(link, s.runner)
}
