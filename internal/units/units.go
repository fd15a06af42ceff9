// SPDX-License-Identifier: Apache-2.0

// Package units has the unit files that mcpscope comes with, and puts them into a directory.
//
// A file that was edited is not replaced or removed: the last line of each contains a checksum. There is no
// other state. What a service runs, and how, is asked of its manager, and not read in unit files. Whether it
// runs below mcpscope is seen, and not predicted.
package units

import (
	"embed"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
)

//go:embed system user common dropin.conf
var files embed.FS

// A File is a unit file.
type File struct {
	Name string // below the directory of units
	Text string
}

// Path is the path of the file below a directory of units.
func (f File) Path(dir string) string { return filepath.Join(dir, f.Name) }

// OwnFiles are the units of mcpscope itself for a manager, by name.
func OwnFiles(manager systemd.Kind, programs Programs) []File {
	var own []File
	for _, dir := range []string{string(manager), "common"} {
		entries, _ := files.ReadDir(dir) // it is embedded
		for _, e := range entries {
			own = append(own, File{e.Name(), fill(path.Join(dir, e.Name()), programs)})
		}
	}
	slices.SortFunc(own, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// Programs are the paths of the two programs, as a unit has to spell them.
type Programs struct{ Mcpscope, Mcpscopectl string }

// fill replaces the names of programs in an embedded file by their paths, as `make install` does.
func fill(file string, programs Programs) string {
	text, _ := files.ReadFile(file) // it is embedded
	paths := strings.NewReplacer("@MCPSCOPE@", programs.Mcpscope, "@MCPSCOPECTL@", programs.Mcpscopectl)
	return paths.Replace(string(text))
}

// InstalledPrograms are both programs as a unit would have to name them.
func InstalledPrograms() Programs {
	runner, err := programs.FindRunner()
	if err != nil {
		runner = "/usr/local/bin/mcpscope"
	}
	tool, err := programs.Own()
	if err != nil {
		tool = "/usr/local/bin/mcpscopectl"
	}
	return programsFor(systemd.Own(), runner, tool)
}

// programsFor are both programs as the units of a manager have to name them. A unit of a user names the link
// in PATH. A system unit names the file itself: the PATH of sudo -E is a user's, whose link would choose what
// root runs. Also, the sandbox of a system unit has the tool beside that file, and not beside the link.
func programsFor(manager systemd.Kind, runner, tool string) Programs {
	if manager == systemd.User {
		runner = programs.LastingName(runner)
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
