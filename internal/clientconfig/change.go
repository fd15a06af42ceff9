// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"bytes"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// A Change is the planned change of a file.
type Change struct {
	File *File
	*wrapping.Change
}

// Wrap plans to put the runner in front of the wanted servers, and to change those that are wrapped.
func (c *File) Wrap(runner wrapping.Runner, wanted func(server string) bool) Change {
	return Change{File: c, Change: c.reader.Wrap(c.document, c.backup, runner, wanted)}
}

// Unwrap plans to remove mcpscope from the wanted servers.
func (c *File) Unwrap(wanted func(server string) bool) Change {
	return Change{File: c, Change: c.reader.Unwrap(c.document, c.backup, wanted)}
}

// Masked returns the content of the file before and after the change with the same lines, and without what
// can be a secret.
func (c Change) Masked() (before, after []byte, err error) {
	document, err := splice.Parse(c.File.Format, c.Data)
	if err != nil {
		return nil, nil, err
	}
	return c.File.reader.Mask(c.File.document), c.File.reader.Mask(document), nil
}

// BackupStaysError is of a backup that could not be removed. The file was changed all the same.
type BackupStaysError = configfile.StaysError

// Write changes the file. backup is the path of the content without mcpscope, or "" without a backup. With an
// error that is no BackupStaysError, the file is as it was.
func (c Change) Write() (backup string, err error) {
	err = c.File.content.Replace(c.Data, c.Backup, userBackups())
	if err != nil || bytes.Equal(c.Data, c.Backup) {
		return "", err
	}
	return c.File.backupPath(), nil
}

// KeepsMore reports whether the backup is kept although no server is wrapped any more: the file has changed
// in more than one place since it was wrapped.
func (c Change) KeepsMore() bool {
	return !bytes.Equal(c.Data, c.Backup) && !wrapping.AnyWrapped(c.After)
}

// IsStuck reports whether the change leaves all wanted servers as they are, since none of those that have a
// command can be edited. For one that a person can change by hand there are lines to write.
func (c Change) IsStuck(wanted func(server string) bool) bool {
	isStuck := false
	for i, s := range c.Servers {
		switch {
		case !wanted(s.Name) || len(s.Argv) == 0: // a remote one has no command
		case s.State != wrapping.NotEditable || c.Changed[i] || s.ByHand():
			return false
		default:
			isStuck = true
		}
	}
	return isStuck
}

// Starts reports whether a server that the change concerns starts that mcpscope afterwards.
func (c Change) Starts(program string) bool {
	for i, changed := range c.Changed {
		if changed && c.After[i].IsWrapped() && c.After[i].Argv[0] == program {
			return true
		}
	}
	return false
}

// LeavesBare reports whether a wanted server runs without mcpscope after a wrap, because it cannot be edited.
func (c Change) LeavesBare(wanted func(server string) bool) bool {
	staysBare := func(s wrapping.Server) bool { return wanted(s.Name) && isStuck(&s) }
	return slices.ContainsFunc(c.Servers, staysBare)
}

// Obstacle is why the file cannot be replaced, or "".
func (c *File) Obstacle() string { return c.content.Obstacle() }

// Remedy is the command that makes the file writable, or "".
func (c *File) Remedy() string {
	path := c.content.Unwritable()
	if path == "" {
		return ""
	}
	return "chmod u+w " + cli.Word(path)
}

// Lines are the lines of YAML that a person can write for a server, where mcpscope cannot: those of a wrapped
// server for a runner, and without it those of a bare server.
func (c *File) Lines(s *wrapping.Server, runner *wrapping.Runner) []string {
	if runner == nil {
		return s.Lines(nil)
	}
	prefix, err := c.reader.WrappedPrefix(s, *runner)
	if err != nil { // the flags of the server were read
		return nil
	}
	return s.Lines(prefix)
}
