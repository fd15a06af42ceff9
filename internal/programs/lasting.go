// SPDX-License-Identifier: Apache-2.0

package programs

import (
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

// IsTemporary reports whether a path is one that a reboot or go run removes.
func IsTemporary(path string) bool {
	if strings.Contains(path, "/go-build") {
		return true
	}
	return slices.ContainsFunc([]string{os.TempDir(), "/tmp", "/var/tmp"}, func(dir string) bool {
		return strings.HasPrefix(path, dir+"/")
	})
}
