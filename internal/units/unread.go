// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/remedy"
)

// checkRead returns ErrOutdated if a file of a service has changed since its manager read them, apart from
// the drop-in of mcpscope. That is unread until the daemon-reload that follows its installation.
func (s service) checkRead(dir string) error {
	if !s.Outdated || s.onlyDropInIsUnread(dir) {
		return nil
	}
	return remedy.With(fmt.Errorf("%s: %w", s.Name, ErrOutdated), ReloadStep().String())
}

// onlyDropInIsUnread reports whether nothing but the drop-in of mcpscope has changed. The manager does not
// say which file has: an installation refuses unread files, so all that it had not read then is newer.
func (s service) onlyDropInIsUnread(dir string) bool {
	dropIn := File{Name: dropInOf(s.Name)}.Path(dir)
	installed, err := changeTime(dropIn)
	if err != nil || slices.Contains(s.DropIns, dropIn) {
		return false
	}
	beside, err := os.ReadDir(filepath.Dir(dropIn))
	if err != nil {
		return false
	}
	files := slices.Concat([]string{s.Fragment}, s.DropIns)
	for _, entry := range beside { // one of them can be new, too
		files = append(files, filepath.Join(filepath.Dir(dropIn), entry.Name()))
	}
	for _, file := range files {
		if file == "" || file == dropIn { // a service without a unit file has drop-ins alone
			continue
		}
		changed, err := changeTime(file)
		if err != nil || !changed.Before(installed) {
			return false
		}
	}
	return true
}

// changeTime is when a file, or a link to it, got its contents or its name. Unlike the time of modification,
// no program can set it, such as cp -p.
func changeTime(file string) (time.Time, error) {
	var link, target unix.Stat_t
	err := errors.Join(unix.Lstat(file, &link), unix.Stat(file, &target))
	if err != nil {
		return time.Time{}, &os.PathError{Op: "stat", Path: file, Err: err}
	}
	ofLink := time.Unix(link.Ctim.Unix())
	ofTarget := time.Unix(target.Ctim.Unix())
	if ofLink.After(ofTarget) {
		return ofLink, nil
	}
	return ofTarget, nil
}

// withDropIn adds the drop-in of mcpscope that the manager has yet to read: an installation keeps its flags.
func (s service) withDropIn(dir string) service {
	path := File{Name: dropInOf(s.Name)}.Path(dir)
	text, err := os.ReadFile(path)
	isRead := slices.ContainsFunc(s.Files, func(f unitFile) bool { return f.Path == path })
	if err == nil && !isRead {
		s.Files = append(s.Files, unitFile{path, string(text)})
	}
	return s
}
