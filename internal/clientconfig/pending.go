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
	found, _ := Everywhere() // no file, without a directory to look in
	return found.Coverage()
}

// Coverage counts the servers of the files that were found.
func (f Found) Coverage() Coverage {
	for _, c := range f.Files {
		c.LeaveShared()
	}
	return coverageOf(f.Files)
}

// coverageOf counts a server that wrap leaves alone, for any reason, as none.
func coverageOf(files []*File) Coverage {
	var c Coverage
	for _, f := range files {
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
	if len(c.Bare) > 0 {
		verb := "are"
		if len(c.Bare) == 1 {
			verb = "is"
		}
		const text = "%s %s configured without mcpscope: %s: mcpscope wrap, " +
			"or put mcpscope gateway in front of the client"
		count := cli.Counted(len(c.Bare), "server")
		lines = append(lines, fmt.Sprintf(text, count, verb, firstNames(c.Bare)))
	}
	if len(c.Broken) > 0 {
		const text = "%s cannot start: %s: mcpscope wrap repairs it, or has the reason"
		count := cli.Counted(len(c.Broken), "configured server")
		lines = append(lines, fmt.Sprintf(text, count, firstNames(c.Broken)))
	}
	return lines
}

// UnreadLines are for people, with the place and the reason of each file that could not be read.
func (f Found) UnreadLines() (lines []string) {
	for _, c := range f.Files {
		if c.Err != nil {
			lines = append(lines, "cannot read "+c.Where()+": "+cli.ErrorLine(c.Err))
		}
	}
	return lines
}

// firstNames shortens a long list.
func firstNames(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(slices.Concat(names[:most], []string{"…"}), ", ")
}
