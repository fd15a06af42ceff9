// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// Coverage is how many of the configured servers run under mcpscope.
type Coverage struct {
	Wrapped int
	Bare    []string // what wrap would wrap: NAME (CLIENT)
	Broken  []string // what no client can start
}

// FindCoverage reads the configurations of the calling user.
func FindCoverage() Coverage {
	var c Coverage
	found, _ := Everywhere() // none, without a directory to look in
	for _, f := range found.Files {
		f.LeaveShared()
		for _, s := range f.Servers {
			name := cli.OneLine(fmt.Sprintf("%s (%s)", s.Name, cmp.Or(f.Client, f.Path)))
			switch {
			case s.State == wrapping.Broken:
				c.Broken = append(c.Broken, name)
			case s.State == wrapping.Wrapped:
				c.Wrapped++
			case s.State == wrapping.Bare && s.Reason == "":
				c.Bare = append(c.Bare, name)
			}
		}
	}
	return c
}

// Lines are for people, with the command that helps.
func (c Coverage) Lines() (lines []string) {
	if n := len(c.Bare); n > 0 {
		const text = "%s %s configured without mcpscope: %s: mcpscope wrap, " +
			"or put mcpscope gateway in front of the client"
		lines = append(lines, fmt.Sprintf(text, cli.Counted(n, "server"), verb(n, "is", "are"), some(c.Bare)))
	}
	if n := len(c.Broken); n > 0 {
		lines = append(lines, fmt.Sprintf("%s cannot start: %s: mcpscope wrap repairs it, or has the reason",
			cli.Counted(n, "configured server"), some(c.Broken)))
	}
	return lines
}

func verb(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// some shortens a long list.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(slices.Concat(names[:most], []string{"…"}), ", ")
}
