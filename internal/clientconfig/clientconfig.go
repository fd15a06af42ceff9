// SPDX-License-Identifier: Apache-2.0

// Package clientconfig lists, wraps and unwraps the servers in the configurations of MCP clients.
//
// It never prints a value that may be a secret.
package clientconfig

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// A File is a configuration of a client.
type File struct {
	known.File
	Servers []wrapping.Server
	Err     error // why it could not be read
	// BackupErr is why its backup could not be read.
	BackupErr error

	content  *configfile.File
	backup   []byte // the content without mcpscope, or nil
	document *splice.Document
	reader   wrapping.Reader
}

// userBackups are the backups of the calling user.
func userBackups() configfile.Backups {
	state := os.Getenv("XDG_STATE_HOME")
	if filepath.IsAbs(state) {
		return configfile.BackupsBelow(state)
	}
	home := settings.Home(os.Getenv)
	if !filepath.IsAbs(home) {
		return ""
	}
	return configfile.BackupsBelow(filepath.Join(home, ".local", "state"))
}

// Lock has commands that change files wait for each other. It is taken before the files are read.
func Lock() (unlock func()) { return userBackups().Lock() }

// parse finds the servers of a file. It reads the backup also of a file that could not be read, because that
// file was wrapped.
func (c *File) parse() {
	c.backup, c.BackupErr = userBackups().Of(c.content)
	if c.Err != nil {
		return
	}
	document, err := splice.Parse(c.Format, c.content.Data)
	if err != nil {
		c.Err = c.withFormat(err)
		return
	}
	c.document = document
	c.reader = wrapping.Reader{
		Places: c.Places, Obstacle: cmp.Or(c.ReadOnly, c.content.Obstacle()),
		Exists: exists, Starts: starts, Operands: operandsOfRun, SetFlag: setFlagOfRun,
		Shell:       c.Client == "augment",
		IsOfWindows: strings.Contains(c.content.Target, "/AppData/"), // below the home of a user of Windows
	}
	c.Servers = c.reader.Servers(document)
}

func starts(program string) bool {
	_, err := programs.Lookup(program)
	return err == nil
}

// operandsOfRun removes the flags of run.
func operandsOfRun(args []string) ([]string, error) {
	operands, _, err := settings.Defaults().FromArguments(settings.Run, args)
	return operands, err
}

func setFlagOfRun(flags []string, name, value string) ([]string, error) {
	return settings.SetFlag(settings.Run, flags, name, value)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isAbsent reports whether an error says that a file does not exist. Without the right to search its
// directory, the file can exist.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// mentionsRunner reports whether the text of a file has the words that begin a wrapped command.
func (c *File) mentionsRunner() bool {
	text := c.content.Data
	return bytes.Contains(text, []byte(wrapping.Program)) && bytes.Contains(text, []byte("run"))
}

// ClientTitle returns the title of the file's client, or the argument for a file of no known client.
func (c *File) ClientTitle(otherwise string) string { return cmp.Or(c.Title, otherwise) }

// Target returns the path of the file to which links lead, or "" without a link.
func (c *File) Target() string {
	if c.content.Target == c.Path {
		return ""
	}
	return c.content.Target
}

// Where returns the path of the file. The path of a link is followed by that of its target.
func (c *File) Where() string {
	target := c.Target()
	if target != "" {
		return cli.OneLine(c.Path + " -> " + target)
	}
	return cli.OneLine(c.Path)
}

// WithoutArguments returns a command without its arguments, which may hold a key. A whole line may too.
func WithoutArguments(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	word := argv[0]
	fields := strings.Fields(word)
	isLine := len(fields) > 1 && !exists(word)
	if isLine {
		word = fields[0] + " …"
	}
	if strings.Contains(word, "=") {
		word = "…"
	}
	return cli.OneLine(word)
}
