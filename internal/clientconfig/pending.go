// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// Coverage is how many of the configured servers run under mcpscope.
type Coverage struct {
	Wrapped int
	Bare    []BareServer // those that wrap would wrap
	Stuck   []StuckServer
	Broken  []string // those that no client can start: NAME (CLIENT)
}

// BareServer is a server that is configured without mcpscope.
type BareServer struct {
	Text   string // NAME (CLIENT)
	Client string // the ID; "" for a file of no client
}

// StuckServer is a BareServer that wrap cannot edit.
type StuckServer struct {
	BareServer
	Remedy string // the command that makes its file writable, or ""
}

// Coverage counts the servers of the files that were found.
func (f Found) Coverage() Coverage {
	LeaveShared(f.Files)
	return coverageOf(f.Files)
}

// isStuck reports whether a client starts a server by its command, and wrap cannot edit that.
func isStuck(s *wrapping.Server) bool {
	isStarted := len(s.Argv) > 0 && s.Argv[0] != "" && !s.Listens
	return isStarted && s.State == wrapping.NotEditable
}

// coverageOf does not count what wrap leaves alone although it could edit it: servers in files that other
// people share, and in those that another program manages, such as the files of plugins.
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
				c.Bare = append(c.Bare, BareServer{Text: name, Client: f.Client})
			case f.ReadOnly == "" && isStuck(&s):
				bare := BareServer{Text: name, Client: f.Client}
				c.Stuck = append(c.Stuck, StuckServer{BareServer: bare, Remedy: f.Remedy()})
			}
		}
	}
	return c
}

// Lines are for people, with the command that helps. inside has the clients that run below mcpscope now, and
// a process of each.
func (c Coverage) Lines(inside map[string]string) (lines []string) {
	var bare []string
	contained := map[string][]string{}
	for _, s := range c.Bare {
		if process := inside[s.Client]; process != "" {
			contained[process] = append(contained[process], s.Text)
		} else {
			bare = append(bare, s.Text)
		}
	}
	stuck := map[string][]string{} // by the remedy
	for _, s := range c.Stuck {
		if process := inside[s.Client]; process != "" {
			contained[process] = append(contained[process], s.Text)
		} else {
			stuck[s.Remedy] = append(stuck[s.Remedy], s.Text)
		}
	}
	if len(bare) > 0 {
		const text = "%s configured without mcpscope: %s: mcpscope wrap, " +
			"or put mcpscope gateway in front of the client"
		lines = append(lines, fmt.Sprintf(text, countedAre(len(bare)), firstNames(bare)))
	}
	for _, remedy := range slices.Sorted(maps.Keys(stuck)) {
		step := "mcpscope wrap --list has the reason; or put mcpscope gateway in front of the client"
		if remedy != "" {
			step = remedy + ", then mcpscope wrap"
		}
		const text = "%s configured without mcpscope, where wrap cannot edit the command: %s: %s"
		names := stuck[remedy]
		lines = append(lines, fmt.Sprintf(text, countedAre(len(names)), firstNames(names), step))
	}
	for _, process := range slices.Sorted(maps.Keys(contained)) {
		const text = "%s contained only while the client runs below mcpscope, as %s does now: %s: " +
			"for its other starts, mcpscope wrap"
		names := contained[process]
		lines = append(lines, fmt.Sprintf(text, countedAre(len(names)), process, firstNames(names)))
	}
	if len(c.Broken) > 0 {
		const text = "%s cannot start: %s: mcpscope wrap repairs it, or has the reason"
		count := cli.Counted(len(c.Broken), "configured server")
		lines = append(lines, fmt.Sprintf(text, count, firstNames(c.Broken)))
	}
	return lines
}

func countedAre(servers int) string {
	if servers == 1 {
		return "1 server is"
	}
	return cli.Counted(servers, "server") + " are"
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
