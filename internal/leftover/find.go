// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leftover

import (
	"cmp"
	"os"
	"time"

	"github.com/mcpscope/mcpscope/internal/clientconfig"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// FindLeaks finds those of a user, or of everyone. Each has to be closed.
func FindLeaks(uid int, olderThan time.Duration) ([]*Leak, error) {
	return Search{UID: uid, OlderThan: olderThan, Inside: insideServers(uid), Known: knownServers()}.Find()
}

// CloseLeaks closes what FindLeaks has found.
func CloseLeaks(all []*Leak) {
	for _, l := range all {
		l.Close()
	}
}

// insideServers lists the servers at the first call. If they cannot be listed, every process may belong to
// one.
func insideServers(uid int) func(pid int) bool {
	inside, unknown := map[int]bool(nil), false
	return func(pid int) bool {
		if inside == nil {
			inside = map[int]bool{os.Getpid(): true}
			servers, err := fleet.List(uid)
			unknown = err != nil
			for _, s := range servers {
				pids, _ := s.Processes() // none, if it has ended
				for _, pid := range append(pids, s.Launcher, s.Guard) {
					inside[pid] = true
				}
			}
			selection.Close(servers)
		}
		return unknown || inside[pid]
	}
}

// knownServers reads the configurations at the first call.
func knownServers() func(argv []string) *Known {
	var rules *gw.Rules
	return func(argv []string) *Known {
		if rules == nil {
			rules = &gw.Rules{}
			all, _ := clientconfig.Everywhere() // none, without a directory to look in
			for _, c := range all {
				for _, s := range c.Servers {
					if own := s.Own(); len(own) > 0 && c.Err == nil {
						one := gw.Configured{Name: s.Label(), File: c.Where(), Argv: own}
						rules.Configured = append(rules.Configured, one)
					}
				}
			}
		}
		if found := rules.Server(argv); found != nil {
			return &Known{Name: cmp.Or(found.Name, name.Derive(argv)), File: found.File}
		}
		return nil
	}
}

// CountLeaks is for doctor and metrics; 0 if they cannot be found.
func CountLeaks(uid int) int {
	found, _ := FindLeaks(uid, LeakAge) // none
	defer CloseLeaks(found)
	return len(found)
}
