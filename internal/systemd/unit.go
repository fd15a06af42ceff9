// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"strconv"
	"strings"
)

// UnitOf finds the unit that a process is in by its cgroup path, and the manager that
// the unit belongs to. uid is whose user manager counts as "user". ok is false outside
// of any unit.
func UnitOf(path string, uid int) (unit string, kind Kind, ok bool) {
	kind = System
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case part == "user@"+strconv.Itoa(uid)+".service":
			unit, kind = "", User // what follows is of the user's manager
		case strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope"):
			unit = unescape(part)
		case strings.HasSuffix(part, ".slice"):
		case unit != "":
			return unit, kind, true // a group that the unit made itself
		}
	}
	return unit, kind, unit != ""
}

// unescape undoes the "_" that systemd puts before names that a controller could take.
func unescape(part string) string {
	if rest, ok := strings.CutPrefix(part, "_"); ok {
		return rest
	}
	return part
}

// UnitLetters are those of a unit's name, but for the "@" of a template's.
const UnitLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\"

// SlicePath is where the directory of a slice is below its manager's: a dash stands for a level (systemd.slice(5)).
func SlicePath(slice string) string {
	if slice == "-.slice" {
		return ""
	}
	name, parts := strings.TrimSuffix(slice, ".slice"), ""
	for i, c := range name + "-" {
		if c == '-' && i > 0 {
			parts += name[:i] + ".slice/"
		}
	}
	return strings.TrimSuffix(parts, "/")
}
