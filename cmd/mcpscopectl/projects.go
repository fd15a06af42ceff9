// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/clients"
	"github.com/mcpscope/mcpscope/internal/configfile"
	"github.com/mcpscope/mcpscope/internal/splice"
)

// everywhere are the files of every client that is found here, and those in the projects that clients say they
// were used in: there is what was wrapped in other directories.
func everywhere() ([]*configured, error) {
	f, err := finder()
	if err != nil {
		return nil, err
	}
	files := f.All()
	for _, project := range projects(f) {
		for _, file := range f.Within(project) {
			if !slices.ContainsFunc(files, func(o clients.File) bool { return o.Path == file.Path }) {
				files = append(files, file)
			}
		}
	}
	return readAll(files), nil
}

// projects are the directories that the clients' registers name, each once. A register that can't be read names none.
func projects(f clients.Finder) []string {
	var all []string
	for _, r := range f.Registers() {
		file, err := configfile.Read(r.Path)
		if err != nil {
			continue
		}
		d, err := splice.Parse(r.Format, file.Data)
		if err != nil {
			continue
		}
		n := d.Root
		for _, key := range r.Place {
			if n != nil {
				n = n.Get(key)
			}
		}
		if n == nil {
			continue
		}
		for _, m := range n.Members {
			if dir := directoryOf(m.Name); dir != "" && !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}

// directoryOf is what a register calls a project: a path, or a URL of a file here.
func directoryOf(name string) string {
	if strings.HasPrefix(name, "file:") {
		u, err := url.Parse(name)
		if err != nil || u.Host != "" {
			return ""
		}
		name = u.Path
	}
	if !filepath.IsAbs(name) {
		return ""
	}
	return filepath.Clean(name)
}
