// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"

	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// UnmatchedSections returns a line for each table [server."NAME"] in settings files that is for no server
// of this user, and for each [client.NAME] of no client: its name can be mistyped.
func UnmatchedSections(files *settings.FileSettings, search *clientconfig.Search) (lines []string) {
	lines = files.UnknownClients(clientNames())
	sections := files.Sections()
	if len(sections) == 0 {
		return lines // without a search
	}
	names := serverNames(search)
	for _, section := range sections {
		line := section.Unmatched(names)
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// UnknownServer returns a line for a name that no configured and no running server has, with those that may
// be meant.
func UnknownServer(named string, search *clientconfig.Search) (lines []string) {
	names := serverNames(search)
	if slices.Contains(names, named) {
		return nil
	}
	line, _ := settings.NoServer(named, names)
	return []string{line}
}

// serverNames returns the names of configured and of running servers, and of agents: mcpscope run may be
// in front of an agent at any time.
func serverNames(search *clientconfig.Search) []string {
	configured, _ := search.InAllProjects() // no file, without a directory to look in
	names := configured.RunNames()
	servers, _ := fleet.ListOwn() // no server, where groups cannot be listed
	defer selection.Close(servers)
	for _, s := range servers {
		names = append(names, s.Facts.Name)
	}
	for program, client := range name.ClientPrograms() {
		names = append(names, program, client)
	}
	return append(names, clientNames()...)
}

// clientNames are the names of the clients that mcpscope wrap knows.
func clientNames() (names []string) {
	for _, client := range clientconfig.Clients() {
		names = append(names, client.ID)
	}
	return names
}
