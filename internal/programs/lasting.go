// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LastingName returns the name in PATH of the file of the runner, if there is one. The directory of the file
// itself can be that of a version (Homebrew, Nix), which an upgrade removes.
func LastingName(runner string) string {
	found, err := Lookup(Runner)
	if err != nil || !filepath.IsAbs(found) {
		return runner
	}
	here, err := os.Stat(runner)
	if err != nil {
		return runner
	}
	there, err := os.Stat(found)
	if err != nil || !os.SameFile(here, there) {
		return runner
	}
	return found
}

// CheckTemporary refuses a path of mcpscope that a reboot or go run removes.
func CheckTemporary(path string) error {
	if isTemporary(path) {
		return errors.New("mcpscope is in a temporary directory: " + path)
	}
	return nil
}

// FindSource returns the directory with the source code of mcpscope that a program was built in, or "". The
// program does not outlast that directory. A repository alone says nothing: nvm is one, and keeps programs.
func FindSource(program string) string {
	file, err := filepath.EvalSymlinks(program)
	if err != nil {
		return ""
	}
	for dir := filepath.Dir(file); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		text, _ := os.ReadFile(filepath.Join(dir, "go.mod")) // most directories have none
		if strings.HasPrefix(string(text), module) {
			return dir
		}
	}
	return ""
}

// module begins the go.mod of mcpscope.
const module = "module github.com/mcpscope/mcpscope\n"

func isTemporary(path string) bool {
	if strings.Contains(path, "/go-build") {
		return true
	}
	return slices.ContainsFunc([]string{os.TempDir(), "/tmp", "/var/tmp"}, func(dir string) bool {
		return strings.HasPrefix(path, dir+"/")
	})
}
