// SPDX-License-Identifier: Apache-2.0

//go:build linux

package configfile

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
)

// Tracked tells whether git keeps a file, so that others get what is written to it. The index is read and no
// git run: a repository's own settings can make git execute what they like.
func Tracked(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if index, err := os.ReadFile(filepath.Join(gitDir(filepath.Join(dir, ".git")), "index")); err == nil {
			name, err := filepath.Rel(dir, path)
			return err == nil && inIndex(index, name)
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// gitDir follows the file that a work tree has in the place of the directory.
func gitDir(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return path
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !ok {
		return path
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(path), dir)
	}
	return dir
}

// inIndex looks for a name with its length before it (gitformat-index). Version 4 has only the ends of names, so
// there every file counts as tracked.
func inIndex(index []byte, name string) bool {
	if len(index) > 8 && binary.BigEndian.Uint32(index[4:]) > 3 {
		return true
	}
	entry := append([]byte(name), 0)
	for at := 4; at < len(index); at++ {
		i := bytes.Index(index[at:], entry)
		if i < 0 {
			return false
		}
		at += i
		// Version 3 may have two more bytes of flags behind those with the length.
		if length(index[at-2:]) == len(name) || length(index[at-4:]) == len(name) {
			return true
		}
	}
	return false
}

func length(flags []byte) int { return int(binary.BigEndian.Uint16(flags) & 0xfff) }
