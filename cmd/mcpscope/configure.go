// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

const (
	// maxConfigNotes fit into a report; `doctor` has them all.
	maxConfigNotes = 5
	maxNoteRunes   = 500
)

// configure reads the files. What is wrong with them is a note.
func (v *invocation) configure() int {
	c := settings.ReadFiles()
	v.values.FromFile(c.For(v.values.Name))
	v.Quiet, v.Verbose = v.values.Quiet, v.values.Verbose
	for i, p := range c.Problems {
		if i == maxConfigNotes {
			v.notes = append(v.notes, fmt.Sprintf("configuration: %d more: mcpscope doctor", len(c.Problems)-i))
			break
		}
		v.note(p)
	}
	return cli.ExitOK
}

func (v *invocation) note(p settings.FileProblem) {
	text := []rune("configuration: " + cli.ErrorLine(p))
	if len(text) > maxNoteRunes {
		text = append(text[:maxNoteRunes-1], '…')
	}
	v.notes = append(v.notes, string(text))
}

// openReport: one that a file asks for and that can't be had is a mistake in the file, which
// must not keep the server from starting.
func (v *invocation) openReport() (int, error) {
	report, err := cli.OpenReport(v.values.Report)
	if from, ours := v.values.From["report"]; err != nil && ours {
		v.note(settings.FileProblem{File: from.File, Line: from.Line, Text: "cannot open the report: " + err.Error()})
		return -1, nil
	}
	return report, err
}
