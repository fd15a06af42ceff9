// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
)

// backups is the directory of all backups, or "": each has its file's whole path below that. A backup is not
// beside its file, for it may hold keys, and the file may be in a repository.
func backups() string {
	state := os.Getenv("XDG_STATE_HOME")
	if home := os.Getenv("HOME"); !filepath.IsAbs(state) && filepath.IsAbs(home) {
		state = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(state) {
		return ""
	}
	return filepath.Join(state, "mcpscope", "backups")
}

// Wrapped lists the files of the calling user that have a backup: every file that mcpscope has wrapped, and
// some that were changed before they were unwrapped. Only the file itself has the states of its servers.
func Wrapped() (files []string, err error) {
	dir := backups()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Type().IsRegular() {
			files = append(files, path[len(dir):])
		}
		return err
	})
	return files, err
}

// BackupPath is where the backup of the file is, if there is one.
func (f *File) BackupPath() string { return filepath.Join(backups(), f.Target) }

// Backup is the content of the backup, or nil.
func (f *File) Backup() []byte {
	data, _, err := read(f.BackupPath())
	if err != nil || backups() == "" {
		return nil
	}
	return data
}

// Replace writes data to the file, and keeps a backup with the given content, unless it equals data.
func (f *File) Replace(data, backup []byte) error {
	path := f.BackupPath()
	if backups() == "" {
		return errors.New("there is no directory for backups: HOME is not set")
	}
	if bytes.Equal(data, backup) {
		if err := f.put(data); err != nil {
			return err
		}
		return removeBackup(path)
	}
	if !bytes.Equal(f.Backup(), backup) {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = atomicfile.WriteAs(path, backup, f.guard, func() error { return nil })
		}
		if err != nil {
			return fmt.Errorf("back it up as %s: %w", path, cause(err))
		}
	}
	return f.put(data)
}

// removeBackup removes the directories that were made for it, too, if no other is in them.
func removeBackup(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cause(err)
	}
	state := filepath.Dir(filepath.Dir(backups()))
	for dir := filepath.Dir(path); dir != state && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
	return nil
}
