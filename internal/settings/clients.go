// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/mcpscope/mcpscope/internal/similar"
)

// ClientFile is a section [client.NAME]: a configuration of an MCP client, for mcpscope wrap.
type ClientFile struct {
	Name    string
	Path    string   // absolute, below "~/", or below a project; with the wildcards of path.Match
	Format  string   // json, toml or yaml; "" for that of the name
	Servers []string // the keys on the way to the servers; "*" is any key
	File    string   // that has the section
	Line    int      // of its first key
}

// ClientFormats are the formats of configurations.
func ClientFormats() []string { return []string{"json", "toml", "yaml"} }

// checkClient refuses a name that no client has.
func checkClient(name string) error {
	isName := func(r rune) bool { return r == '-' || r == '_' || isLetterOrDigit(r) }
	if strings.TrimFunc(name, isName) != "" {
		return fmt.Errorf("the name of a client has letters, digits, dashes and underscores: %q", name)
	}
	return nil
}

// setClient sets a key of the section of a client.
func (c *FileSettings) setClient(name string, v FileValue, value *unstable.Node) error {
	i := slices.IndexFunc(c.Clients, func(f ClientFile) bool { return f.Name == name })
	if i < 0 {
		i = len(c.Clients)
		c.Clients = append(c.Clients, ClientFile{
			Name: name, Servers: []string{"mcpServers"}, File: v.File, Line: v.Line,
		})
	}
	f := &c.Clients[i]
	if v.key == "servers" {
		keys, err := list(v.key, value)
		if err != nil {
			return err
		}
		if len(keys) == 0 || slices.Contains(keys, "") {
			return errors.New(`servers has the keys on the way to the servers: ["mcp", "servers"]`)
		}
		f.Servers = keys
		return nil
	}
	text := string(value.Data)
	switch {
	case v.key != "path" && v.key != "format":
		return fmt.Errorf("unknown key %q; [client.NAME] has path, format, servers, keep and keep-for", v.key)
	case value.Kind != unstable.String:
		return fmt.Errorf("%s is text in quotes", v.key)
	case v.key == "format" && !slices.Contains(ClientFormats(), text):
		return fmt.Errorf("format: %q is none of %s", text, strings.Join(ClientFormats(), ", "))
	case v.key == "format":
		f.Format = text
	default:
		return f.setPath(text)
	}
	return nil
}

func (f *ClientFile) setPath(text string) error {
	if _, err := path.Match(text, ""); err != nil || text == "" || text != path.Clean(text) ||
		text == ".." || strings.HasPrefix(text, "../") {
		return fmt.Errorf("path: %q is not the path of a file: absolute, or below ~/ or a project", text)
	}
	f.Path = text
	return nil
}

func isLetterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// UnknownClients returns a line for each table [client.NAME] without a path that is for none of the
// clients.
func (c *FileSettings) UnknownClients(clients []string) (lines []string) {
	var seen []string
	for _, v := range c.values {
		isIt := func(f ClientFile) bool { return f.Name == v.client }
		isKnown := slices.Contains(clients, v.client) || slices.ContainsFunc(c.Clients, isIt)
		if v.client == "" || isKnown || slices.Contains(seen, v.client) {
			continue
		}
		seen = append(seen, v.client)
		meant := similar.Meant(similar.Among(v.client, clients))
		const text = "%s:%d: no known client is called %q%s; the table is for a program of that name"
		lines = append(lines, fmt.Sprintf(text, v.File, v.Line, v.client, meant))
	}
	return lines
}

// dropUnnamedFiles reports clients without a path.
func (c *FileSettings) dropUnnamedFiles() {
	c.Clients = slices.DeleteFunc(c.Clients, func(f ClientFile) bool {
		if f.Path == "" {
			text := fmt.Sprintf("[client.%s] has no path", f.Name)
			c.Problems = append(c.Problems, FileProblem{f.File, f.Line, text})
		}
		return f.Path == ""
	})
}
