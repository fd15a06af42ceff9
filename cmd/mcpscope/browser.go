// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/backend"
)

// withBrowser gives a server that may sign its user in a BROWSER that outlives it, where there is a graphical
// session with a manager, and no BROWSER. Programs split the variable at colons and spaces, and put the
// address in for %s.
func withBrowser(env []string) []string {
	graphical := false
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name == "BROWSER" {
			return env
		}
		graphical = graphical || value != "" && (name == "DISPLAY" || name == "WAYLAND_DISPLAY")
	}
	if !graphical || backend.FindManager() != nil {
		return env
	}
	self, err := os.Executable()
	if err != nil || isOdd(self) {
		return env
	}
	return append(env, "BROWSER="+self+programs.Browser)
}

// isOdd reports whether a program in BROWSER would not be understood.
func isOdd(file string) bool { return strings.ContainsAny(file, " \t\n:%\\'\"$") }
