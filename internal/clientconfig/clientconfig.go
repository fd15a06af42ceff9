// SPDX-License-Identifier: Apache-2.0

// Package clientconfig lists, wraps and unwraps the servers in the configurations of MCP clients.
//
// It never prints an argument of a server, which may be a secret.
package clientconfig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
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

func finder() (known.Finder, error) {
	dir, err := os.Getwd()
	f := known.Finder{Getenv: os.Getenv, Home: settings.Home(os.Getenv), Dir: dir}
	for _, c := range settings.ReadFiles().Clients {
		f.Own = append(f.Own, known.New(c.Name, c.Path, c.Format, c.Servers))
	}
	return f, err
}

// mistakes are those of mcpscope.toml, which can name clients.
func mistakes() error {
	var all []error
	for _, p := range settings.ReadFiles().Problems {
		all = append(all, p)
	}
	return errors.Join(all...)
}

// backups are those of the calling user.
func backups() configfile.Backups {
	state := os.Getenv("XDG_STATE_HOME")
	if home := settings.Home(os.Getenv); !filepath.IsAbs(state) && home != "" {
		state = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(state) {
		return ""
	}
	return configfile.BackupsBelow(state)
}

// Clients are all that can be named: the known ones, and those of mcpscope.toml.
func Clients() []known.Client {
	f, _ := finder() // the working directory has no clients
	return f.Clients()
}

// Found are the configurations of a search.
type Found struct {
	Files []*File
	// Backups are the directories of backups that could not be searched: they could name wrapped files.
	Backups []error
	// Directories are those of clients that could not be searched.
	Directories []error
	// Left are the files that have a backup, and no wrapped server any more.
	Left []Left
}

// Unsearched is everything that could not be searched.
func (f Found) Unsearched() []error { return slices.Concat(f.Backups, f.Directories) }

// Find returns the files for the arguments or, without arguments, those of all clients.
func Find(args []string) (Found, error) {
	if len(args) == 0 {
		return Everywhere()
	}
	f, err := finder()
	if err != nil {
		return Found{}, err
	}
	var files []known.File
	for _, arg := range args {
		found, err := f.Find(arg)
		if err != nil {
			return Found{}, errors.Join(err, mistakes())
		}
		files = append(files, found...)
	}
	all := readAll(files)
	return Found{Files: all, Left: left(all)}, nil
}

// Everywhere are the files of every client that are found here, and all others that have a wrapped server:
// the backups name them.
func Everywhere() (Found, error) {
	f, err := finder()
	if err != nil {
		return Found{}, err
	}
	clientFiles := f.All()
	backed, unreadable := backups().Files()
	files := slices.Clone(clientFiles)
	for _, path := range backed {
		files = append(files, f.ByPath(path)) // also one that was removed, because its backup is there
	}
	read := readAll(files)
	hasLeft := left(read)
	all := slices.DeleteFunc(read, func(c *File) bool {
		isClients := slices.ContainsFunc(clientFiles, func(f known.File) bool { return f.Path == c.Path })
		// a person has named it, and has not restored every server since
		c.Named = c.HasBackup() && wrapping.AnyWrapped(c.Servers)
		switch {
		case isAbsent(c.Err): // a link without a target stays, if that was wrapped
			return !c.HasBackup() || c.isRemoved()
		case isClients || c.Err != nil || wrapping.AnyWrapped(c.Servers):
			return false
		}
		if c.mentionsRunner() {
			const text = "it starts mcpscope where no known client has its servers: " +
				"name the client in mcpscope.toml ([client.NAME]), or restore %s"
			c.Err = fmt.Errorf(text, c.backupPath())
		}
		return c.Err == nil
	})
	return Found{Files: all, Backups: unreadable, Directories: f.Unsearchable(), Left: hasLeft}, nil
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

// readAll reads a file only once if several clients share it by links.
func readAll(files []known.File) []*File {
	var all []*File
	for _, f := range files {
		c := &File{File: f}
		c.content, c.Err = configfile.Read(f.Path)
		same := func(o *File) bool { return o.content.Target == c.content.Target }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].Named = all[i].Named || f.Named
			all[i].Places = slices.Clone(all[i].Places)
			for _, p := range f.Places {
				equal := func(o wrapping.Place) bool { return slices.Equal(o, p) }
				if !slices.ContainsFunc(all[i].Places, equal) {
					all[i].Places = append(all[i].Places, p)
				}
			}
			continue
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.parse()
	}
	return all
}

func (c *File) parse() {
	c.backup, c.BackupErr = backups().Of(c.content) // also of a file that cannot be read: it was wrapped
	if c.Err != nil {
		return
	}
	if c.document, c.Err = splice.Parse(c.Format, c.content.Data); c.Err != nil {
		c.Err = c.withFormat(c.Err)
		return
	}
	c.reader = wrapping.Reader{
		Places: c.Places, Obstacle: cmp.Or(c.ReadOnly, c.content.Obstacle()),
		Exists: isThere, Starts: starts, Operands: ownCommand, SetFlag: setFlag,
		Shell: c.Client == "augment",
	}
	c.Servers = c.reader.Servers(c.document)
}

func starts(program string) bool {
	_, err := cli.Lookup(program)
	return err == nil
}

// ownCommand removes the flags of run.
func ownCommand(args []string) ([]string, error) {
	operands, _, err := settings.Defaults().FromArguments(settings.Run, args)
	return operands, err
}

func setFlag(flags []string, name, value string) ([]string, error) {
	return settings.SetFlag(settings.Run, flags, name, value)
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ClientTitle returns the title of the file's client, or the argument for a file of no known client.
func (c *File) ClientTitle(otherwise string) string { return cmp.Or(c.Title, otherwise) }

// Where returns the path of the file, with its client.
func (c *File) Where() string {
	if c.content.Target != c.Path {
		return cli.OneLine(c.Path + " -> " + c.content.Target)
	}
	return cli.OneLine(c.Path)
}

// WithoutArguments is a command without its arguments, which may hold a key. A whole line may too.
func WithoutArguments(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	word := argv[0]
	if fields := strings.Fields(word); len(fields) > 1 && !isThere(word) {
		word = fields[0] + " …"
	}
	if strings.Contains(word, "=") {
		word = "…"
	}
	return cli.OneLine(word)
}
