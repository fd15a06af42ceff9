// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
)

// Keys are the keys of the screen and their meaning, for the help of the command and for the key "?".
func Keys() [][2]string {
	return [][2]string{
		{"↑ ↓ k j", "select a server"},
		{"PgUp PgDn Home End", "the same, by a page or to the end"},
		{"Enter", "show details and processes"},
		{"c m a n p", "sort by CPU, memory, age, name or processes"},
		{"/", "filter by id, name, client, project, state or backend"},
		{"f, then y", "freeze the selected server; f thaws it"},
		{"s, then y", "stop the selected server, as mcpscope stop does"},
		{"?", "show the keys"},
		{"Escape", "go back from details and keys, or remove the filter"},
		{"q", "go back from details and keys, or quit"},
		{"^Z, ^C", "suspend top; quit"},
	}
}

// KeyColumn is the width of the keys in both.
const KeyColumn = 20

// Colors are the meaning of the colors.
const Colors = "Idle servers are cyan, frozen ones blue, and those above 80 % of a limit of " +
	"memory, CPU or processes are yellow. NO_COLOR switches colors off."

// helpLines are Keys and Colors, for a terminal of that width.
func helpLines(width int) []string {
	room := max(width-KeyColumn, KeyColumn)
	var lines []string
	for _, k := range Keys() {
		left := k[0]
		for _, text := range cli.Wrap(k[1], room) {
			lines = append(lines, render.Fit(render.Padded(left, KeyColumn)+text, width))
			left = ""
		}
	}
	lines = append(lines, "")
	for _, text := range cli.Wrap(Colors, max(width, KeyColumn)) {
		lines = append(lines, render.Fit(strings.TrimRight(text, " "), width))
	}
	return lines
}
