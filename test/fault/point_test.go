// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// point is a place on the way of a server's start and stop.
type point struct {
	role  role
	call  string
	about string // a path, "" for none
	n     int    // the n-th such call of that role
}

func (p point) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s #%d", p.role, p.call, p.about, p.n)), " ")
}

// visit is a point as it was met in one run.
type visit struct {
	point
	alive  []role // the processes that could be killed
	errnos errnos
}

// fault is a failure at a point.
type fault struct {
	kill  []role
	errno unix.Errno // of a call
	act   act        // of a bus, with a message
}

func (f fault) String() string {
	switch {
	case f.errno != 0:
		return unix.ErrnoName(f.errno)
	case f.act != "":
		return string(f.act)
	}
	var names []string
	for _, r := range f.kill {
		names = append(names, string(r))
	}
	return "kill " + strings.Join(names, "+")
}

func (f fault) kills(r role) bool { return slices.Contains(f.kill, r) }

// unguarded reports whether only a sweep is left to end the server.
func (f fault) unguarded() bool { return f.kills(launcher) && f.kills(guard) }

// kills are the guards that are killed at a point, together or alone.
var kills = [][]role{{launcher}, {guard}, {launcher, guard}, {helper}}

// faults are all that a point is tried with.
func (v visit) faults() []fault {
	var all []fault
	for _, a := range v.acts() {
		all = append(all, fault{act: a})
	}
	for _, k := range kills {
		if !slices.ContainsFunc(k, func(r role) bool { return !slices.Contains(v.alive, r) }) {
			all = append(all, fault{kill: k})
		}
	}
	for _, errno := range v.errnos {
		all = append(all, fault{errno: errno})
	}
	return all
}

// shot is one fault at one point.
type shot struct {
	visit
	fault
}

func (s shot) String() string {
	return fmt.Sprintf("%s at %s", s.fault, s.point)
}

// name is for a subtest.
func (s shot) name() string {
	return strings.NewReplacer("'s ", "_", " ", "_", "/", ".").Replace(s.point.String()) + "/" + s.fault.String()
}

// The directions in which a message can go; they take a role's place in a point.
const (
	toManager   role = "to the manager:"
	fromManager role = "from the manager:"
)

// act is a bus's treatment of a message, beside passing it on.
type act string

const (
	hangUp act = "hang up"
	refuse act = "refuse"
	// stall lets nothing more pass in this direction.
	stall act = "stall"
)

// acts are those that a point can be tried with.
func (v visit) acts() []act {
	if !isMessage(v) {
		return nil
	}
	if v.role == fromManager {
		return []act{hangUp}
	}
	return []act{hangUp, refuse, stall} // an answer that does not come takes as long as mcpscope waits for a scope
}
