// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"fmt"
	"strings"
)

// Backend names where a group comes from. Everything above that is the same.
type Backend string

const (
	// Auto takes the best that the host offers.
	Auto Backend = "auto"
	// SystemdUser and SystemdSystem ask a manager for a scope in mcp.slice.
	SystemdUser   Backend = "systemd-user"
	SystemdSystem Backend = "systemd-system"
	// Delegated makes groups below our own cgroup, which was delegated to us.
	Delegated Backend = "delegated"
	// Cgroup makes groups in <cgroup2 mount>/mcp.slice/<uid>: root without systemd.
	Cgroup Backend = "cgroup"
	// Tree needs no cgroup: the descendants of the guard are the group. It is the weakest
	// (docs/understand/how-it-works.md).
	Tree Backend = "tree"
)

// Backends lists what --backend accepts, after auto the best first.
var Backends = []Backend{Auto, SystemdUser, SystemdSystem, Delegated, Cgroup, Tree}

// ParseBackend accepts the names of Backends.
func ParseBackend(s string) (Backend, error) { return oneOf(s, Backends...) }

func oneOf[T ~string](s string, all ...T) (T, error) {
	var names []string
	for _, one := range all {
		if s == string(one) {
			return one, nil
		}
		names = append(names, string(one))
	}
	return "", fmt.Errorf("%q is none of %s", s, strings.Join(names, ", "))
}

// OneLine: joined errors are a line each.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ", ") }
