// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

const (
	maxConfigNotes = 5 // fit into a report; doctor has them all
	maxNoteRunes   = 500
)

// configure reads the files. Mistakes in them become notes.
func (v *invocation) configure() {
	c := settings.ReadFiles()
	values := c.For(v.values.Name)
	c.AddClient(values, clientOf(os.Getppid()))
	v.values.FromFile(values)
	v.Quiet = v.values.Output.Quiet
	v.Verbose = v.values.PrintsNotes()
	v.notes = configurationNotes(c.Problems)
}

// clientOf is the name of a client in mcpscope.toml, where this process is.
func clientOf(pid int) string {
	comm, _ := proc.Comm(pid) // "", if it has ended
	return name.ClientOf(cmp.Or(protocol.ClientName(pid), comm))
}

func configurationNotes(problems []settings.FileProblem) (notes []string) {
	for i, p := range problems {
		if i == maxConfigNotes {
			more := fmt.Sprintf("configuration: %d more: mcpscope doctor", len(problems)-i)
			return append(notes, more)
		}
		text := []rune("configuration: " + cli.ErrorLine(p))
		if len(text) > maxNoteRunes {
			text = append(text[:maxNoteRunes-1], '…')
		}
		notes = append(notes, string(text))
	}
	return notes
}

// openReport: one that a file asks for and that can't be had is a mistake in the file, which
// must not keep the server from starting.
func (v *invocation) openReport() (int, error) {
	report, err := openReport(v.values.Output.Report)
	if err != nil && !v.values.Given("report") {
		v.notes = append(v.notes, "configuration: cannot open the report: "+cli.ErrorLine(err))
		return -1, nil
	}
	return report, err
}
