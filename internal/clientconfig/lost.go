// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// HasBackup reports whether mcpscope has wrapped the file before. A backup that cannot be read is one too.
func (c *File) HasBackup() bool { return c.backup != nil || c.BackupErr != nil }

func (c *File) backupPath() string { return backups().Path(c.content) }

// Repair is what a person does to a wrapped file that cannot be read, or "" if the error contains it. unwrap
// cannot help before.
func (c *File) Repair() string {
	_, isMalformed := errors.AsType[*splice.SyntaxError](c.Err)
	switch {
	case isMalformed:
		return "repair it, or restore " + c.backupPath()
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
