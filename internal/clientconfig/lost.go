// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// HasBackup reports whether mcpscope has wrapped the file before. A backup that cannot be read is one too.
func (c *File) HasBackup() bool { return c.backup != nil || c.BackupErr != nil }

// Unread is a file that could not be read.
type Unread struct {
	File *File
	// Trace says how it is known that the file needs mcpscope. It is "" without a sign of that.
	Trace string
	// IsUnknown: not even the text of the file is known.
	IsUnknown bool
}

// Unread returns the files that could not be read.
func (f Found) Unread() []Unread {
	var unread []Unread
	for _, c := range f.Files {
		if c.Err == nil {
			continue
		}
		u := Unread{File: c, IsUnknown: c.content.Data == nil}
		switch {
		case c.HasBackup():
			u.Trace = "was wrapped"
		case c.mentionsRunner():
			u.Trace = "names mcpscope"
		}
		unread = append(unread, u)
	}
	return unread
}

// isRemoved reports whether there is no file, and no link of its name either.
func (c *File) isRemoved() bool {
	_, err := os.Lstat(c.Path)
	return isAbsent(err)
}

// A Left is a file that has a backup, and no wrapped server.
type Left struct {
	File    *File
	Backup  string // its path
	Removed bool   // there is no file
}

// RemoveIfSpent removes a backup that equals its file, or is only older. Any other backup can have work of a
// person.
func (l Left) RemoveIfSpent() (removed bool, err *BackupStaysError) {
	c := l.File
	isSpent := bytes.Equal(c.backup, c.content.Data) || c.reader.IsSpent(c.Format, c.backup, c.content.Data)
	if l.Removed || !isSpent {
		return false, nil
	}
	// Another command may have wrapped the file while a person was asked.
	backup, errOf := userBackups().Of(c.content)
	if errOf != nil || !bytes.Equal(backup, c.backup) || c.content.CheckUnchanged() != nil {
		return false, nil
	}
	stays := userBackups().Remove(l.File.content)
	return stays == nil, stays
}

// findLeft does not list a file that may start mcpscope where no client has its servers.
func findLeft(files []*File) []Left {
	var left []Left
	for _, c := range files {
		isRemoved := isAbsent(c.Err) && c.isRemoved()
		isUnwrapped := c.Err == nil && !wrapping.AnyWrapped(c.Servers) && !c.mentionsRunner()
		if c.backup != nil && (isRemoved || isUnwrapped) {
			left = append(left, Left{File: c, Backup: c.backupPath(), Removed: isRemoved})
		}
	}
	return left
}

func (c *File) backupPath() string { return userBackups().Path(c.content) }

// Repair returns the step that makes a wrapped file readable again, or "" if the error contains it. unwrap
// cannot help before.
func (c *File) Repair() string {
	_, isMalformed := errors.AsType[*splice.SyntaxError](c.Err)
	switch {
	case isMalformed && c.HasBackup():
		return "repair it, or restore " + cli.Word(c.backupPath())
	case isMalformed:
		return "repair it, and run mcpscope unwrap"
	case errors.Is(c.Err, fs.ErrPermission):
		return "give yourself the right to read it, and run mcpscope unwrap"
	case isAbsent(c.Err):
		return "bring back the target of the link, or remove the link"
	}
	return ""
}

// withFormat adds to an error of the syntax how to set the format of a file, if its name does not have it.
func (c *File) withFormat(err error) error {
	if c.Client != "" {
		return err
	}
	switch filepath.Ext(c.Path) {
	case ".json", ".jsonc", ".toml", ".yaml", ".yml":
		return err
	}
	const remedy = "for another format, name the client and its format in mcpscope.toml ([client.NAME])"
	return fmt.Errorf("%w; %s", err, remedy)
}
