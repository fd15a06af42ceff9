// SPDX-License-Identifier: Apache-2.0

// Package known describes the MCP clients: where each keeps the files with its servers, their format, and
// where in them the servers are.
//
// It compares names of files, and reads none. docs/use/laptop.md documents for each client how it was
// verified.
package known

import "github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"

// A Client is one that starts servers.
type Client struct {
	ID    string // as people type it
	Title string
	files []pattern
}

// pattern is where files of a client may be.
type pattern struct {
	variable string // of the environment, which has the directory
	base     string // the directory if that is not set; "~" is the home; "" a project's
	glob     string
	places   []wrapping.Place
	readOnly string // why it must not be edited
}

// Why files are shown and left alone.
const (
	managed = "an administrator manages it"
	plugin  = "it belongs to a plugin, whose next update would replace it"
)

const config = "XDG_CONFIG_HOME"

func place(keys ...string) []wrapping.Place { return []wrapping.Place{keys} }

func in(base, glob string, places []wrapping.Place) pattern {
	return pattern{base: base, glob: glob, places: places}
}

// or takes the directory from a variable where that is set.
func (p pattern) or(variable string) pattern {
	p.variable = variable
	return p
}

func (p pattern) leftAlone(why string) pattern {
	p.readOnly = why
	return p
}

// project stands for the working directory and the directories above it.
const project = ""
