// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
)

// Backups is the directory of all backups of a user, or "": each has its file's whole path below that. A
// backup is not beside its file, for it may hold keys, and the file may be in a repository.
type Backups string

// BackupsBelow returns those below a state directory of the XDG base directory specification.
func BackupsBelow(state string) Backups { return Backups(filepath.Join(state, "mcpscope", "backups")) }

// Files lists the files that have a backup: every file that mcpscope has wrapped, and some that were changed
// before they were unwrapped. Only the file itself has the states of its servers. unreadable are the
// directories that could not be searched.
func (b Backups) Files() (files []string, unreadable []error) {
	dir := string(b)
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // returns no error
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			unreadable = append(unreadable, fmt.Errorf("read the backups in %s: %w", path, cause(err)))
		case d.Type().IsRegular():
			files = append(files, path[len(dir):])
		}
		return nil
	})
	return files, unreadable
}

// Path is where the backup of the file is, if there is one.
func (b Backups) Path(f *File) string { return filepath.Join(string(b), f.Target) }

// Of returns the content of the backup, or nil without one.
func (b Backups) Of(f *File) ([]byte, error) {
	if b == "" {
		return nil, nil
	}
	data, _, err := read(b.Path(f))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the backup %s: %w", b.Path(f), err)
	}
	return data, nil
}

// Replace writes data to the file, and keeps a backup with the given content, unless it equals data. With a
// StaysError alone, data was written.
func (f *File) Replace(data, backup []byte, in Backups) error {
	if err := f.CheckUnchanged(); err != nil { // the backup may be that of another command
		return err
	}
	if bytes.Equal(data, backup) {
		if err := f.put(data); err != nil {
			return err
		}
		if stays := in.Remove(f); stays != nil {
			return stays
		}
		return nil
	}
	if in == "" {
		return errors.New("there is no directory for backups: the user has no home directory")
	}
	kept, err := in.Of(f)
	isKept := err == nil && bytes.Equal(kept, backup)
	if !isKept {
		if err := in.keep(f, backup); err != nil {
			return fmt.Errorf("back it up as %s: %w", in.Path(f), cause(err))
		}
	}
	hadNone := err == nil && kept == nil
	errPut := f.put(data)
	if errPut != nil && hadNone {
		stays := in.Remove(f) // it would be a copy of keys that no unwrap needs
		if stays != nil {
			return fmt.Errorf("%w; cannot %v", errPut, stays)
		}
	}
	return errPut
}

func (b Backups) keep(f *File, data []byte) error {
	path := b.Path(f)
	if err := makeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	return atomicfile.WriteAs(path, data, f.guard, func() error { return nil })
}

// makeDirectory makes a directory and those above it. Each gets the owner of the one above it: if root wraps
// a user's file with that user's HOME, as after su -m, the user has to be able to unwrap it.
func makeDirectory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(path)
	if err := makeDirectory(above); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	var owner unix.Stat_t
	if err := unix.Stat(above, &owner); err != nil {
		return fmt.Errorf("find the owner of %s: %w", above, err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, int(owner.Uid), int(owner.Gid)); err != nil {
		return fmt.Errorf("give %s its owner: %w", path, err)
	}
	return nil
}

// StaysError is of a backup that could not be removed, such as one that another user has made. The file
// itself is as it was asked for.
type StaysError struct {
	Path string
	Err  error
}

func (e *StaysError) Error() string { return fmt.Sprintf("remove the backup %s: %v", e.Path, e.Err) }

func (e *StaysError) Unwrap() error { return e.Err }

// Remove removes the backup of a file, and the directories that were made for it, if no other is in them.
func (b Backups) Remove(f *File) *StaysError {
	path := b.Path(f)
	if b == "" {
		return nil
	}
	err := os.Remove(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &StaysError{Path: path, Err: cause(err)}
	}
	removeEmpty(filepath.Dir(path), filepath.Dir(filepath.Dir(string(b))))
	return nil
}
