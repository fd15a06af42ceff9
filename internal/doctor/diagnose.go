// SPDX-License-Identifier: Apache-2.0

// Package doctor checks a host for doctor.
//
// Collect reads facts, and runs each backend with the command that clients use. It changes nothing. Judge
// makes a diagnosis of facts, and does no I/O. The package prints nothing: a diagnosis has its text.
package doctor

import (
	"os"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// Facts are the state of a host, without a judgement.
type Facts struct {
	Mcpscope string // its version
	UID      int
	Host     Host
	Trials   []Trial // in the order of auto
	Findings Findings
	Limits   []settings.PlacedLimit // in settings files, and in the commands of wrapped servers
}

// Findings are facts about programs and files beside the host itself, in JSON too; fields are only added.
type Findings struct {
	Gateways    []string                   `json:"gateways,omitempty"` // running gateways
	Uncontained []units.UncontainedGateway `json:"uncontained,omitempty"`
	Changed     []ChangedGateway           `json:"changed,omitempty"`    // services with an outdated drop-in
	Configured  []string                   `json:"configured,omitempty"` // without mcpscope, or not readable
	Agents      []Agent                    `json:"agents,omitempty"`     // without mcpscope
	Leaks       int                        `json:"leaks,omitempty"`      // leaked servers
	Settings    []string                   `json:"settings,omitempty"`   // mistakes in settings files
	Unmatched   []string                   `json:"unmatched,omitempty"`  // sections there for no server
}

// Collect reads the facts. The findings come first, because a trial is a server that they would count.
func Collect(installed Programs) Facts {
	files := settings.ReadFiles()
	search := clientconfig.NewSearch()
	configured, _ := search.Everywhere() // no file, without a directory to look in
	f := Facts{
		Mcpscope: programs.Version(),
		UID:      os.Getuid(),
		Host:     readHost(),
		Findings: readFindings(files, search),
		Limits:   append(files.Limits(), configured.Limits()...),
	}
	for _, b := range backend.Candidates() {
		f.Trials = append(f.Trials, tryBackend(installed, b))
	}
	return f
}

func readFindings(files *settings.FileSettings, search *clientconfig.Search) Findings {
	configured, _ := search.Everywhere() // as in Collect
	// doctor advises if there is a leak; sweep prints the error
	leaks, _ := leaks.CountBy(visibleUsers(), search)
	coverage := configured.Coverage()
	return Findings{
		Gateways:    gatewayLines(),
		Uncontained: units.UncontainedGateways(),
		Changed:     changedGateways(),
		Configured:  append(coverage.Lines(containment.ClientsInside()), configured.UnreadLines()...),
		Agents:      agentsOutside(),
		Leaks:       leaks,
		Settings:    problemLines(files.Problems),
		Unmatched:   UnmatchedSections(files, search),
	}
}

// visibleUsers are those whose processes the calling user may examine.
func visibleUsers() group.Users { return selection.Whose(os.Getuid() == 0) }

// problemLines lists mistakes in mcpscope.toml in the format of editors: FILE:LINE: TEXT.
func problemLines(problems []settings.FileProblem) (lines []string) {
	for _, p := range problems {
		lines = append(lines, cli.ErrorLine(p))
	}
	return lines
}
