// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"maps"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// configure takes from mcpscope.toml what holds for a whole gateway: its defaults. Sections for servers are looked up
// when there is one, see configureServer.
func (v *gatewayRun) configure() {
	c := settings.ReadFiles()
	for i, p := range c.Problems {
		if i == maxConfigNotes {
			v.note("configuration: more is wrong: mcpscope doctor")
			break
		}
		v.note("configuration: " + cli.ErrorLine(p))
	}
	defaults := ofGateway(c.For(""))
	v.FromFile(defaults)
	v.Printer.Quiet, v.Printer.Verbose = v.Values.Quiet, v.Values.Verbose
}

// maxConfigNotes are as many as a report of run's has.
const maxConfigNotes = 5

// ofGateway leaves out what only run has, and a backend that can't take in a server of a gateway.
func ofGateway(of map[string]settings.FileValue) map[string]settings.FileValue {
	rows := settings.Rows(settings.Gateway)
	maps.DeleteFunc(of, func(key string, value settings.FileValue) bool {
		return key == "backend" && value.Text == string(protocol.Tree) || !slices.ContainsFunc(rows, func(r *settings.Row) bool { return r.Name == key })
	})
	return of
}

// given are the settings that the gateway's command line or environment gave: no file changes them.
func (v *gatewayRun) given() []string {
	var all []string
	for _, r := range settings.Rows(settings.Gateway) {
		if v.Given(r.Name) {
			all = append(all, r.Name)
		}
	}
	return all
}

// configureServer is what a server of that name gets: its files are read when it is there, as run does.
func configureServer(name string, s gw.Servers) gw.Servers {
	of := ofGateway(settings.ReadFiles().For(name))
	for _, key := range s.Given {
		delete(of, key)
	}
	v := settings.Defaults()
	v.Policy, v.Limits, v.Backend, v.Slice, v.Replace, v.Stderr = s.Policy, s.Limits, s.Backend, s.Slice, s.Replace, s.Stderr
	v.Limits.Files = slices.Clone(v.Limits.Files)
	v.FromFile(of)
	s.Policy, s.Limits, s.Backend, s.Slice, s.Replace, s.Stderr = v.Policy, v.Limits, v.Backend, v.Slice, v.Replace, v.Stderr
	return s
}
