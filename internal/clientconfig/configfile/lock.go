// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock has commands of a user that change files wait for each other, from the reading of the files to the
// last write: of two that have read the same content, one could undo the other, and remove its backup. The
// lock is a file beside the backups, which only the user can open. It is gone afterwards.
//
// Where no such file can be made there is no lock. No backup can be made there either.
func (b Backups) Lock() (unlock func()) {
	if b == "" {
		return func() {}
	}
	dir := filepath.Dir(string(b))
	keep := nearestDirectory(filepath.Dir(dir)) // and those above it
	for {
		if makeDirectory(dir) != nil {
			return func() {}
		}
		path := filepath.Join(dir, "lock")
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if os.IsNotExist(err) { // the directory was removed by a command that has ended
			continue
		}
		if err != nil {
			return func() {}
		}
		if err := flock(file); err != nil {
			_ = file.Close()
			return func() {}
		}
		if isLinked(file) {
			return func() {
				_ = os.Remove(path) // before the next command has it
				removeEmpty(dir, keep)
				_ = file.Close()
			}
		}
		_ = file.Close() // the command before has removed it
	}
}

// flock waits for an exclusive lock.
func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			return err
		}
	}
}

// isLinked reports whether the file still has its name.
func isLinked(file *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(file.Fd()), &st) == nil && st.Nlink > 0
}

// nearestDirectory returns the path, or the nearest one above it that exists.
func nearestDirectory(path string) string {
	for {
		info, err := os.Stat(path)
		above := filepath.Dir(path)
		if err == nil && info.IsDir() || above == path {
			return path
		}
		path = above
	}
}

// removeEmpty removes a directory and those above it, up to the one to keep, as far as they are empty.
func removeEmpty(dir, keep string) {
	for dir != keep && os.Remove(dir) == nil { // a directory with a file stays
		dir = filepath.Dir(dir)
	}
}
