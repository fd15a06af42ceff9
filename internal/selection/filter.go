// SPDX-License-Identifier: Apache-2.0

// Package selection finds the servers that a command means, by name, id, client and user, and does one thing
// to each.
package selection

import (
	"os"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Filter says which servers are meant.
type Filter struct {
	AllUsers bool
	Client   string
}

// Whose is the uid of those that are meant.
func Whose(everyone bool) int {
	if everyone {
		return group.Everyone
	}
	return os.Getuid()
}

// List finds what the filter lets through.
func (f *Filter) List() ([]*fleet.Listed, error) {
	all, err := fleet.List(Whose(f.AllUsers))
	return keep(all, func(s *fleet.Listed) bool {
		return f.Client == "" || f.Client == strconv.Itoa(s.Client.PID) || f.Client == s.Client.Name
	}), err
}

// None says that there are no such servers.
func (f *Filter) None() string {
	if f.Client != "" {
		return "no servers of the client " + f.Client
	}
	if os.Getuid() == 0 && !f.AllUsers {
		return "no servers of root; --all-users includes those of other users"
	}
	return "no servers"
}

// keep closes what it leaves out.
func keep(all []*fleet.Listed, wanted func(*fleet.Listed) bool) []*fleet.Listed {
	var kept []*fleet.Listed
	for _, s := range all {
		if wanted(s) {
			kept = append(kept, s)
		} else {
			s.Close()
		}
	}
	return kept
}

func Close(all []*fleet.Listed) {
	for _, s := range all {
		s.Close()
	}
}
