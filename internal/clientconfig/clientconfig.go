// SPDX-License-Identifier: Apache-2.0

// Package clientconfig lists, wraps and unwraps the servers in the configurations of MCP clients.
//
// It never prints an argument of a server, which may be a secret.
package clientconfig

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

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

	content  *configfile.File
	document *splice.Document
	reader   wrapping.Reader
}

func finder() (known.Finder, error) {
	dir, err := os.Getwd()
	return known.Finder{Getenv: os.Getenv, Home: os.Getenv("HOME"), Dir: dir}, err
}

// Find returns the files for the arguments or, without arguments, those of all clients.
func Find(args []string) ([]*File, error) {
	if len(args) == 0 {
		return Everywhere()
	}
	f, err := finder()
	if err != nil {
		return nil, err
	}
	var files []known.File
	for _, arg := range args {
		found, err := f.Find(arg)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return readAll(files), nil
}

// Everywhere are the files of every client that is found here, and all others that have a wrapped server: the
// backups name them.
func Everywhere() ([]*File, error) {
	f, err := finder()
	if err != nil {
		return nil, err
	}
	clientFiles := f.All()
	backed, err := configfile.Wrapped()
	if err != nil {
		return nil, fmt.Errorf("look for backups: %w", err)
	}
	files := slices.Clone(clientFiles)
	for _, path := range backed {
		if found, err := f.Find(path); err == nil { // otherwise it no longer exists
			files = append(files, found...)
		}
	}
	return slices.DeleteFunc(readAll(files), func(c *File) bool {
		isClients := slices.ContainsFunc(clientFiles, func(f known.File) bool { return f.Path == c.Path })
		return !isClients && c.Err == nil && !slices.ContainsFunc(c.Servers, isWrapped)
	}), nil
}

func isWrapped(s wrapping.Server) bool { return s.State == wrapping.Wrapped }

// readAll reads a file only once if several clients share it by links.
func readAll(files []known.File) []*File {
	var all []*File
	for _, f := range files {
		c := &File{File: f}
		c.content, c.Err = configfile.Read(f.Path)
		if c.Err == nil {
			same := func(o *File) bool { return o.Err == nil && o.content.Target == c.content.Target }
			if i := slices.IndexFunc(all, same); i >= 0 {
				all[i].Places = slices.Clone(all[i].Places)
				for _, p := range f.Places {
					equal := func(o wrapping.Place) bool { return slices.Equal(o, p) }
					if !slices.ContainsFunc(all[i].Places, equal) {
						all[i].Places = append(all[i].Places, p)
					}
				}
				continue
			}
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.parse()
	}
	return all
}

func (c *File) parse() {
	if c.Err != nil {
		return
	}
	if c.document, c.Err = splice.Parse(c.Format, c.content.Data); c.Err != nil {
		return
	}
	obstacle := cmp.Or(c.ReadOnly, c.content.Obstacle())
	if c.Format == splice.YAML {
		obstacle = NoYAML
	}
	c.reader = wrapping.Reader{Places: c.Places, Obstacle: obstacle, Exists: isThere}
	c.reader.Operands = func(args []string) ([]string, error) {
		operands, _, err := settings.Defaults().FromArguments(settings.Run, args)
		return operands, err
	}
	c.Servers = c.reader.Servers(c.document)
}

// NoYAML is the reason for a file in YAML: the end of a value depends on anchors, tags and folded lines.
const NoYAML = "mcpscope edits no YAML"

// WhyBroken is why a client can't start a server that is wrapped, "" if it can: mcpscope was removed before
// an unwrap.
func WhyBroken(s wrapping.Server) string {
	if s.State != wrapping.Wrapped {
		return ""
	}
	if _, err := cli.Lookup(s.Argv[0]); err != nil {
		return fmt.Sprintf("%s is not there; mcpscope unwrap takes it away", s.Argv[0])
	}
	return ""
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ClientTitle returns the title of the file's client, or the argument for a file of no known client.
func (c *File) ClientTitle(otherwise string) string { return cmp.Or(c.Title, otherwise) }

// Where returns the path of the file, with its client.
func (c *File) Where() string {
	if c.content != nil && c.content.Target != "" && c.content.Target != c.Path {
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

// Installed is the program that clients are to start: the runner beside this program, unless
// another one is given.
func Installed(given string) (string, error) {
	path := given
	if path == "" {
		var err error
		if path, err = cli.FindRunner(); err != nil {
			return "", err
		}
		for _, temporary := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
			if strings.HasPrefix(path, temporary+"/") || strings.Contains(path, "/go-build") {
				return "", errors.New("mcpscope is in a temporary directory: " + path)
			}
		}
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err == nil && filepath.Base(path) != wrapping.Program {
		err = fmt.Errorf("%s is not called %s: unwrap would not recognize it", path, wrapping.Program)
	}
	return path, err
}
