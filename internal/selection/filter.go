// SPDX-License-Identifier: Apache-2.0

// Package selection finds the servers that a command means: by name, id, client and user.
package selection

import (
	"os"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Filter says which servers are meant.
type Filter struct {
	AllUsers bool
	Client   string // pid or name; "" for all. So are the others
	Project  string
	Session  string
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
	return keep(all, f.letsThrough), err
}

// IsNarrow reports whether it leaves out servers of a user.
func (f *Filter) IsNarrow() bool { return f.Client != "" || f.Project != "" || f.Session != "" }

func (f *Filter) letsThrough(s *fleet.Listed) bool {
	isClient := f.Client == "" || f.Client == strconv.Itoa(s.Client.PID) || f.Client == s.Client.Name
	isProject := f.Project == "" || f.Project == s.Project
	isSession := f.Session == "" || strings.HasPrefix(s.Session, f.Session)
	return isClient && isProject && isSession
}

// None says that there are no such servers.
func (f *Filter) None() string {
	if f.IsNarrow() {
		text := "no servers"
		for _, one := range []struct{ of, called string }{
			{"client", f.Client}, {"project", f.Project}, {"session", f.Session},
		} {
			if one.called != "" {
				text += " of the " + one.of + " " + one.called
			}
		}
		return text
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
