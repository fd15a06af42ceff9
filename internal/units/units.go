// SPDX-License-Identifier: Apache-2.0

// Package units has the unit files that mcpscope comes with, and puts them into a directory.
//
// A file that was edited is not replaced or removed: the last line of each contains a checksum. There is no
// other state. The package reads a service from its manager, and changes services by systemctl alone.
package units

import (
	"embed"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

//go:embed system user common gateway.conf
var files embed.FS

// A File is a unit file.
type File struct {
	Name string // below the directory of units
	Text string
}

// All are the units of a manager, by name.
func All(m systemd.Kind, by Programs) []File {
	var all []File
	for _, dir := range []string{string(m), "common"} {
		entries, _ := files.ReadDir(dir) // it is embedded
		for _, e := range entries {
			all = append(all, File{e.Name(), text(path.Join(dir, e.Name()), by)})
		}
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Programs are the paths of the two programs, as a unit has to spell them.
type Programs struct{ Mcpscope, Mcpscopectl string }

func text(file string, by Programs) string {
	b, _ := files.ReadFile(file) // it is embedded
	// as `make install` does
	return strings.NewReplacer("@MCPSCOPE@", by.Mcpscope, "@MCPSCOPECTL@", by.Mcpscopectl).Replace(string(b))
}

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
