// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"strconv"
	"strings"
)

// UnitOf returns the unit of a process by its cgroup path, and the manager of the unit. Kind User stands for
// the manager of uid. ok is false outside any unit.
func UnitOf(path string, uid int) (unit string, kind Kind, ok bool) {
	kind = System
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case part == "user@"+strconv.Itoa(uid)+".service":
			unit, kind = "", User // the rest of the path belongs to the user manager
		case strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope"):
			unit = strings.TrimPrefix(part, "_") // before names that could collide with a controller's file
		case strings.HasSuffix(part, ".slice"):
		case unit != "":
			return unit, kind, true // a group below the unit
		}
	}
	return unit, kind, unit != ""
}

// UnitLetters are the characters of unit names, without the "@" of templates.
const UnitLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\"

// SlicePath returns the directory of a slice below that of its manager. Each dash is a level
// (systemd.slice(5)).
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
