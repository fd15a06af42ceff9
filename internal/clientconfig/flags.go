// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"cmp"
	"slices"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Flags returns the flags of run in the command of a wrapped server, without the name that wrap gives it.
func Flags(c *File, s *wrapping.Server) []settings.GivenFlag {
	if len(s.Prefix()) == 0 {
		return nil
	}
	label := c.reader.Label(s)
	return slices.DeleteFunc(flagsOf(s), func(f settings.GivenFlag) bool {
		return f.Name == "name" && f.Value == label
	})
}

// A PlacedSetting is one in a client's file: a flag in the command of a wrapped server, or a variable of it.
type PlacedSetting struct {
	Flag     string // with its dashes, or ""
	Variable string // or ""
	Value    string
	File     string
	Line     int // of the server's command
}

// SettingsOf returns what the files set for the wrapped servers that run by that name.
func (f Found) SettingsOf(server string) []PlacedSetting {
	var placed []PlacedSetting
	for _, c := range f.Files {
		for i := range c.Servers {
			s := &c.Servers[i]
			if len(s.Prefix()) > 0 && runName(c, s) == server {
				placed = append(placed, settingsIn(c, s)...)
			}
		}
	}
	return placed
}

func settingsIn(c *File, s *wrapping.Server) []PlacedSetting {
	line := s.Line(c.document)
	var placed []PlacedSetting
	for _, row := range settings.Rows(settings.Run) {
		value := s.Env[row.Variable()]
		if value == "" || row.Name == "name" {
			continue
		}
		variable := PlacedSetting{Variable: row.Variable(), Value: value, File: c.Path, Line: line}
		placed = append(placed, variable)
	}
	for _, f := range flagsOf(s) {
		if f.Name == "" || f.Name == "name" { // wrap --list has those that run refuses
			continue
		}
		flag := PlacedSetting{Flag: "--" + f.Name, Value: f.Value, File: c.Path, Line: line}
		placed = append(placed, flag)
	}
	return placed
}

// runName returns the name by which a configured server runs, or will run once it is wrapped.
func runName(c *File, s *wrapping.Server) string {
	if len(s.Prefix()) == 0 {
		return c.reader.Label(s)
	}
	if given, ok := valueOf(s, "name"); ok {
		return given
	}
	return cmp.Or(s.Env["MCPSCOPE_NAME"], s.DerivedName())
}

// RunNames returns the names by which the servers of the files run.
func (f Found) RunNames() []string {
	var names []string
	for _, c := range f.Files {
		for i := range c.Servers {
			names = append(names, runName(c, &c.Servers[i]))
		}
	}
	return names
}

// flagsOf returns all flags of a wrapped server.
func flagsOf(s *wrapping.Server) []settings.GivenFlag {
	return settings.GivenFlags(settings.Run, s.Prefix()[2:])
}

// MissingFlags are flags that all servers have that were wrapped before a change, and that the same others do
// not get.
type MissingFlags struct {
	Flags   []wrapping.Flag // with the values of the first server
	Servers []string
}

// MissingFlags compares the servers of a file that a change wraps with those that were wrapped before. A
// setting or a variable of the server is as good as the flag.
func (c Change) MissingFlags(names ...string) []MissingFlags {
	var missing []MissingFlags
	for _, name := range names {
		value, isCommon := c.commonValue(name)
		if !isCommon {
			continue
		}
		servers := c.newWithout(name)
		if len(servers) == 0 {
			continue
		}
		flag := wrapping.Flag{Name: name, Value: value}
		isOfSame := func(m MissingFlags) bool { return slices.Equal(m.Servers, servers) }
		i := slices.IndexFunc(missing, isOfSame)
		if i < 0 {
			missing = append(missing, MissingFlags{Flags: []wrapping.Flag{flag}, Servers: servers})
			continue
		}
		missing[i].Flags = append(missing[i].Flags, flag)
	}
	return missing
}

// newWithout returns the servers that the change wraps, and that do not have the setting.
func (c Change) newWithout(name string) (servers []string) {
	for i := range c.Servers {
		isNew := c.Changed[i] && !c.Servers[i].IsWrapped()
		if isNew && !hasSetting(c.File, &c.After[i], name) {
			servers = append(servers, c.Servers[i].Name)
		}
	}
	return servers
}

// commonValue returns the first value of a flag that all servers have that were wrapped before the change.
func (c Change) commonValue(name string) (value string, isCommon bool) {
	for i := range c.Servers {
		s := &c.Servers[i]
		if len(s.Prefix()) == 0 {
			continue
		}
		given, ok := valueOf(s, name)
		if !ok {
			return "", false
		}
		if !isCommon {
			value = given
			isCommon = true
		}
	}
	return value, isCommon
}

// valueOf returns the last value of a flag, which is the one that counts.
func valueOf(s *wrapping.Server, name string) (value string, ok bool) {
	for _, f := range slices.Backward(flagsOf(s)) {
		if f.Name == name {
			return f.Value, true
		}
	}
	return "", false
}

// hasSetting reports whether a wrapped server has a setting by a flag, a variable or a settings file.
func hasSetting(c *File, s *wrapping.Server, name string) bool {
	if _, ok := valueOf(s, name); ok {
		return true
	}
	variable := func(name string) string { return s.Env[name] }
	effective, _ := settings.ReadFiles().Effective(c.reader.Label(s), variable) // doctor reports mistakes
	return slices.ContainsFunc(effective, func(e settings.Effective) bool {
		return e.Row.Name == name && e.Source() != "default"
	})
}
