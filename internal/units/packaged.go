// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// PackageDirs are the directories where packages and make install put units for a manager.
func PackageDirs(manager systemd.Kind) []string {
	var dirs []string
	for _, lib := range []string{"/usr/local/lib", "/usr/lib", "/lib"} {
		dirs = append(dirs, filepath.Join(lib, "systemd", string(manager)))
	}
	if manager == systemd.User { // make install PREFIX=~/.local
		dirs = append(dirs, filepath.Join(settings.Home(os.Getenv), ".local", "share", "systemd", "user"))
	}
	return dirs
}

// InstallOwn installs the units that the packages have not. A copy in dir would stay when the package is
// removed, and start a program that no longer exists. A copy that is there already is kept up to date.
func InstallOwn(files []File, dir string, packageDirs []string) []FileResult {
	return forEach(files, dir, func(file File, dir string) (Result, error) {
		_, err := os.Lstat(file.Path(dir))
		if errors.Is(err, fs.ErrNotExist) && file.isPackaged(packageDirs) {
			return Packaged, nil
		}
		return file.Install(dir)
	})
}

// startLine is the line of a unit that has its program.
var startLine = regexp.MustCompile(`(?m)^ExecStart=(\S+)`)

// isPackaged reports whether a package has a unit of that name, and that starts the same program, if any.
func (f File) isPackaged(packageDirs []string) bool {
	for _, dir := range packageDirs {
		text, err := os.ReadFile(f.Path(dir))
		if err == nil && isSameProgram(startOf(string(text)), startOf(f.Text)) {
			return true
		}
	}
	return false
}

// startOf is the program of a unit, "" for a timer.
func startOf(text string) string {
	match := startLine.FindStringSubmatch(text)
	if match == nil {
		return ""
	}
	return match[1]
}

func isSameProgram(program, other string) bool {
	if program == other {
		return true
	}
	info, err := os.Stat(program)
	if err != nil {
		return false
	}
	otherInfo, err := os.Stat(other)
	return err == nil && os.SameFile(info, otherInfo)
}
