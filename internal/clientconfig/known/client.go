// SPDX-License-Identifier: Apache-2.0

// Package known describes the MCP clients: where each keeps the files with its servers, their format, and
// where in them the servers are.
//
// It compares names of files, and reads none. docs/reference/clients.md documents for each client how it was
// verified.
package known

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// A Client is one that starts servers.
type Client struct {
	ID    string // as people type it
	Title string
	files []pattern
}

// New returns a client that is not built in, with the keys on the way to its servers. The path of its file is
// absolute, begins with "~/" or is below a project, and can have wildcards. The format is "json", "toml",
// "yaml" or, for that of the file's name, "".
func New(id, path, format string, servers []string) Client {
	p := in(project, path, []wrapping.Place{servers})
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		p.base = "~"
		p.glob = rest
	}
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		p.base = "/"
		p.glob = rest
	}
	p.format = splice.Format(strings.ToUpper(format))
	return Client{ID: id, Title: id, files: []pattern{p}}
}

// pattern is where files of a client may be.
type pattern struct {
	variable string // the environment variable that has the directory, or ""
	base     string // the directory where that is not set: an absolute path, one below "~", or project
	glob     string // of the files, below the directory
	places   []wrapping.Place
	readOnly string        // why it must not be edited
	format   splice.Format // "" for that of the file's name
}

// Why files are shown and left alone.
const (
	managed = "an administrator manages it"
	plugin  = "it belongs to a plugin, whose next update would replace it"
	flatpak = "its client is a Flatpak, which cannot start mcpscope of the host"
	inside  = "its servers run in a container: install mcpscope there, and wrap the files there"
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
