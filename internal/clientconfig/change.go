// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"bytes"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// A Change is the planned change of a file.
type Change struct {
	*File
	*wrapping.Change
}

// Wrap plans to put the runner (a program, "run" and flags) in front of the wanted servers.
func (c *File) Wrap(runner []string, wanted func(server string) bool) Change {
	return Change{c, c.reader.Wrap(c.document, c.content.Backup(), runner, wanted)}
}

// Unwrap plans to remove mcpscope from the wanted servers.
func (c *File) Unwrap(wanted func(server string) bool) Change {
	return Change{c, c.reader.Unwrap(c.document, c.content.Backup(), wanted)}
}

// Write changes the file. backup is the path of the content without mcpscope, "" if the file has it.
func (c Change) Write() (backup string, err error) {
	if err := c.content.Replace(c.Data, c.Backup); err != nil {
		return "", err
	}
	if bytes.Equal(c.Data, c.Backup) {
		return "", nil
	}
	return c.content.BackupPath(), nil
}
