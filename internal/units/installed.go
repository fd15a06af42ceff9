// SPDX-License-Identifier: Apache-2.0

//go:build linux

package units

import (
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// InstalledPrograms are both programs as a unit would have to name them.
func InstalledPrograms() Programs {
	runner, err := cli.FindRunner()
	if err != nil {
		runner = "/usr/local/bin/mcpscope"
	}
	tool, err := cli.Own()
	if err != nil {
		tool = "/usr/local/bin/mcpscopectl"
	}
	return Programs{Mcpscope: unitPath(runner), Mcpscopectl: unitPath(tool)}
}

func unitPath(exe string) string {
	exe = strings.ReplaceAll(exe, "%", "%%") // a specifier, otherwise
	if strings.ContainsAny(exe, " \t\"'\\;") {
		exe = strconv.Quote(exe)
	}
	return exe
}
