// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"strings"
)

// CacheError: a program is in a directory that a package manager removes without a removal of mcpscope. No
// file may have its path.
type CacheError struct {
	File      string
	Directory string // in words, with the reason for which the file does not last
}

func (e *CacheError) Error() string { return e.File + " is in " + e.Directory }

// Step is the next step after a command that would have written the path into a file.
func (e *CacheError) Step(command string) string {
	return fmt.Sprintf("npm install -g mcpscope, then mcpscope %s", command)
}

// caches are the directories of a CacheError, by a part of the path.
var caches = []struct{ part, directory string }{
	{"/_npx/", "the cache of npx, which npm may remove"},
	{"/.pnpm/", "the directory of one version, which pnpm removes at an upgrade"}, // and that of pnpm dlx
}

// CheckLasting returns a CacheError if a package manager may remove the file of a program.
func CheckLasting(file string) error {
	for _, c := range caches {
		if strings.Contains(file, c.part) {
			return &CacheError{File: file, Directory: c.directory}
		}
	}
	return nil
}
