// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"testing"
)

func TestSetMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"set":              usage("set", "no server given: add a name or an id"),
		"set pids.max=9":   usage("set", "no server given: add a name or an id"),
		"set time":         usage("set", "no limit given: add FILE=VALUE, for example memory.max=1G"),
		"set time memory=": usage("set", `"memory" is not a file of a cgroup, such as memory.max`),
		"set time memory.max=1x": usage("set",
			`"1x" is no size (like 512M, 2G or max)`),
		"set time memry.max=1G": usage("set",
			`"memry.max" is no file of a controller (like memory.min or io.max); did you mean memory.max?`),
		"set --memory-max 1G time": usage("set",
			`unknown flag "--memory-max", which is one of run; here it is an argument: memory.max=VALUE`),
		"set no-such-server pids.max=9": failure(`set: there is no server "no-such-server"`, ""),
	})
}

// The name of a server may contain "=".
func TestSplitLimits(t *testing.T) {
	names, limits := splitLimits([]string{"a=b", "pids.max=9", "c.d", "x=1.5", "cpu.max=max"})
	if want := []string{"a=b", "c.d", "x=1.5"}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	if want := []string{"pids.max=9", "cpu.max=max"}; !slices.Equal(limits, want) {
		t.Errorf("limits %q, want %q", limits, want)
	}
}
