// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// newFinder knows the clients of mcpscope.toml, too. Without a working directory, it finds no projects.
func newFinder() (known.Finder, error) {
	dir, err := os.Getwd()
	f := known.Finder{Getenv: os.Getenv, Home: settings.Home(os.Getenv), Dir: dir}
	for _, c := range settings.ReadFiles().Clients {
		f.Own = append(f.Own, known.New(c.Name, c.Path, c.Format, c.Servers))
	}
	return f, err
}

// mistakesInSettings joins the mistakes in mcpscope.toml, which can name clients.
func mistakesInSettings() error {
	var mistakes []error
	for _, p := range settings.ReadFiles().Problems {
		mistakes = append(mistakes, p)
	}
	return errors.Join(mistakes...)
}

// Clients are all that can be named: the known ones, and those of mcpscope.toml.
func Clients() []known.Client {
	f, _ := newFinder() // the working directory has no clients
	return f.Clients()
}

// Found are the configurations of a search.
type Found struct {
	Files []*File
	// Backups are the directories of backups that could not be searched: they could name wrapped files.
	Backups []error
	// Directories has an error for each directory of a client that could not be searched.
	Directories []error
	// Searched are the directories of [Search.InAllProjects]: the home, the working directory, and projects.
	Searched []string
	// Lists are gaps of InAllProjects: lists that could not be read, and projects above the bound.
	Lists []error
	// Left are the files that have a backup, and no wrapped server any more.
	Left []Left
}

// Find returns the files for the arguments or, without arguments, those of all clients.
func Find(args []string) (Found, error) {
	if len(args) == 0 {
		return everywhere()
	}
	f, err := newFinder()
	if err != nil {
		return Found{}, err
	}
	var places []known.File
	backed, unreadable := userBackups().Files()
	for _, arg := range args {
		found, err := f.Find(arg)
		wrapped := wrappedOf(f, backed, arg)
		if err != nil && len(wrapped) == 0 {
			return Found{}, errors.Join(err, mistakesInSettings())
		}
		places = append(places, slices.Concat(found, wrapped)...)
	}
	files := readFiles(places)
	for _, c := range files {
		c.markNamed()
	}
	return Found{Files: files, Backups: unreadable, Left: findLeft(files)}, nil
}

// wrappedOf returns the files with a backup that a client reads from any project, and that have a wrapped
// server or cannot be read.
func wrappedOf(f known.Finder, backed []string, client string) []known.File {
	var places []known.File
	for _, path := range backed {
		file := f.ByPath(path)
		if file.Client == client {
			places = append(places, file)
		}
	}
	read := readFiles(places)
	var wrapped []known.File
	for _, c := range read {
		if c.isWanted(false) {
			wrapped = append(wrapped, c.File)
		}
	}
	return wrapped
}

// everywhere is that of a Search.
func everywhere() (Found, error) {
	f, err := newFinder()
	if err != nil {
		return Found{}, err
	}
	ofClients := f.All()
	backed, unreadable := userBackups().Files()
	places := slices.Clone(ofClients)
	for _, path := range backed {
		places = append(places, f.ByPath(path)) // also one that was removed, because its backup is there
	}
	read := readFiles(places)
	found := Found{Backups: unreadable, Directories: f.Unsearchable(), Left: findLeft(read)}
	for _, c := range read {
		c.markNamed()
		hasClient := slices.ContainsFunc(ofClients, func(f known.File) bool { return f.Path == c.Path })
		if !hasClient {
			c.checkPlaces()
		}
		if c.isWanted(hasClient) {
			found.Files = append(found.Files, c)
		}
	}
	return found, nil
}

// markNamed marks a file with a wrapped server and a backup as named: a person has named it, and has not
// restored every server since.
func (c *File) markNamed() {
	c.Named = c.Named || c.HasBackup() && wrapping.AnyWrapped(c.Servers)
}

// checkPlaces sets the error of a file that starts mcpscope, and has no wrapped server where one is looked
// for. Only a backup names the file: no known client has servers in it.
func (c *File) checkPlaces() {
	if c.Err != nil || wrapping.AnyWrapped(c.Servers) || !c.mentionsRunner() {
		return
	}
	const text = "it starts mcpscope where no known client has its servers: " +
		"name the client in mcpscope.toml ([client.NAME]), or restore %s"
	c.Err = fmt.Errorf(text, cli.Word(c.backupPath()))
}

// isWanted reports whether a search of all files returns this file.
func (c *File) isWanted(hasClient bool) bool {
	if isAbsent(c.Err) {
		// A link without a target stays, if that was wrapped.
		return c.HasBackup() && !c.isRemoved()
	}
	return hasClient || c.Err != nil || wrapping.AnyWrapped(c.Servers)
}

// readFiles reads a file only once if several clients share it by links.
func readFiles(places []known.File) []*File {
	var files []*File
	for _, f := range places {
		c := &File{File: f}
		c.content, c.Err = configfile.Read(f.Path)
		isSame := func(other *File) bool { return other.content.Target == c.content.Target }
		i := slices.IndexFunc(files, isSame)
		if i < 0 {
			files = append(files, c)
			continue
		}
		files[i].Named = files[i].Named || f.Named
		files[i].Places = union(files[i].Places, f.Places)
	}
	for _, c := range files {
		c.parse()
	}
	return files
}

// union returns the places of both lists, and changes neither.
func union(a, b []wrapping.Place) []wrapping.Place {
	places := slices.Clone(a)
	for _, p := range b {
		isSame := func(other wrapping.Place) bool { return slices.Equal(other, p) }
		if !slices.ContainsFunc(places, isSame) {
			places = append(places, p)
		}
	}
	return places
}
