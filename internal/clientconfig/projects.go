// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// mostProjects bounds a search: each project takes some dozens of system calls.
const mostProjects = 200

// withProjects adds the files in the projects that clients list, and leaves those of other users unread: also
// in the working directory, which can be one where anybody makes files.
func (f Found) withProjects() (Found, error) {
	found := f
	found.Files = slices.Clone(f.Files)
	finder, err := newFinder()
	if err != nil {
		return Found{}, err
	}
	listed := found.listProjects(finder)
	homeOwner := ownerOf(finder.Home)
	for i, c := range found.Files {
		found.Files[i] = refuseForeign(c, homeOwner)
	}
	for _, dir := range slices.Concat([]string{finder.Home, finder.Dir}, listed) {
		if dir != "" && !slices.Contains(found.Searched, dir) {
			found.Searched = append(found.Searched, dir)
		}
	}
	var places []known.File
	for _, dir := range listed {
		places = append(places, finder.InProject(dir)...)
	}
	for _, c := range readFiles(places) {
		isSame := func(other *File) bool { return other.content.Target == c.content.Target }
		if isAbsent(c.Err) || slices.ContainsFunc(found.Files, isSame) {
			continue
		}
		found.Files = append(found.Files, refuseForeign(c, homeOwner))
	}
	return found, nil
}

// refuseForeign returns the file. For one in a project, that belongs neither to the calling user nor to the
// owner of the home, it returns a copy with an error.
func refuseForeign(c *File, homeOwner int) *File {
	owner := c.content.Owner()
	if c.Project == "" || c.Err != nil || owner == os.Geteuid() || owner == homeOwner {
		return c
	}
	foreign := *c
	foreign.Err = errors.New("it belongs to another user")
	return &foreign
}

// ownerOf returns the user of the home, who calls sudo -E. It is -1 without a home.
func ownerOf(home string) int {
	info, err := os.Stat(home)
	if err != nil {
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid) // on Linux it is always one
}

// listProjects returns directories of projects that exist. It adds an error for lists and projects that are
// left out: also for one on a network, whose server may not answer.
func (f *Found) listProjects(finder known.Finder) []string {
	var listed, far []string
	more := 0
	mounts, _ := proc.Mounts(0)            // without them no project is left out
	ofHome := mountOf(mounts, finder.Home) // which is read in any case
	for _, list := range finder.ProjectLists() {
		dirs, err := f.readProjects(list)
		if err != nil && !isAbsent(err) && !f.isUnread(list.Path) {
			f.Lists = append(f.Lists, fmt.Errorf("read %s: %w", list.Path, err))
		}
		for _, dir := range dirs {
			at := mountOf(mounts, dir)
			if mayHang(at) && at.Point != ofHome.Point {
				far = append(far, dir)
				continue
			}
			info, err := os.Stat(dir)
			isProject := err == nil && info.IsDir() && !slices.Contains(listed, dir)
			switch {
			case isProject && len(listed) < mostProjects:
				listed = append(listed, dir)
			case isProject:
				more++
			}
		}
	}
	slices.Sort(far)
	for _, dir := range slices.Compact(far) {
		f.Lists = append(f.Lists, fmt.Errorf("look into %s: it is on a network file system", dir))
	}
	if more > 0 {
		projects := cli.Counted(more, "more project")
		f.Lists = append(f.Lists, fmt.Errorf("look into %s: at most %d are searched", projects, mostProjects))
	}
	return listed
}

// isUnread reports whether a file is one with servers that has its error already.
func (f *Found) isUnread(path string) bool {
	return slices.ContainsFunc(f.Files, func(c *File) bool { return c.Path == path && c.Err != nil })
}

// readProjects returns the directories in a list, clean and absolute.
func (f *Found) readProjects(list known.ProjectList) ([]string, error) {
	document, err := f.documentOf(list)
	if err != nil {
		return nil, err
	}
	node := document.Root
	for _, key := range list.Keys {
		node = node.Get(key)
		if node == nil {
			return nil, nil
		}
	}
	var dirs []string
	add := func(dir string) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	for _, m := range node.Members {
		if !isDistrusted(m.Value) {
			add(m.Name)
		}
	}
	if node.Kind == splice.Text {
		add(localPath(node.Text))
	}
	return dirs, nil
}

// documentOf returns the file with a list, which can be one that has servers, too: that was read.
func (f *Found) documentOf(list known.ProjectList) (*splice.Document, error) {
	for _, c := range f.Files {
		if c.Path == list.Path && c.Format == list.Format {
			return c.document, c.Err
		}
	}
	content, err := configfile.Read(list.Path)
	if err != nil {
		return nil, err
	}
	return splice.Parse(list.Format, content.Data)
}

// isDistrusted reports whether the client reads no configuration of a project: its user has distrusted it.
func isDistrusted(project *splice.Node) bool {
	level := project.Get("trust_level") // of Codex
	return project.Text == "DO_NOT_TRUST" || level != nil && level.Text == "untrusted"
}

// localPath returns the path in a URL of a file. Any other text stays as it is.
func localPath(text string) string {
	location, err := url.Parse(text)
	if err != nil || location.Scheme != "file" || location.Host != "" {
		return text
	}
	return location.Path
}
