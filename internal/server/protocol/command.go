// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// CommandMost is how much of a command line is kept, in bytes.
const CommandMost = 256

// CommandError says why a command can't be executed; it unwraps to the errno:
// ENOENT for one that is not there, otherwise EACCES, EISDIR and the like.
type CommandError struct {
	Command string
	Errno   unix.Errno
}

func (e *CommandError) Error() string { return fmt.Sprintf("%s: %v", e.Command, e.Errno) }

func (e *CommandError) Unwrap() error { return e.Errno }

// NotFound distinguishes 127 from 126.
func (e *CommandError) NotFound() bool { return errors.Is(e.Errno, fs.ErrNotExist) }

// Lookup finds what execvp(3) would execute: command itself if it has a slash,
// otherwise the first executable file in the directories of path. A file that may
// not be executed is remembered and the search goes on.
func Lookup(command, path string) (string, error) {
	if strings.Contains(command, "/") {
		if errno := executable(command); errno != 0 {
			return "", &CommandError{command, errno}
		}
		return command, nil
	}
	worst := unix.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		if command == "" {
			break
		}
		if dir == "" {
			dir = "."
		}
		file := dir + "/" + command
		switch errno := executable(file); errno {
		case 0:
			return file, nil
		case unix.EACCES, unix.EISDIR:
			worst = errno
		}
	}
	return "", &CommandError{command, worst}
}

func executable(file string) unix.Errno {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return errnoOf(err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	// with the effective ids, as execve would
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
		return errnoOf(err)
	}
	return 0
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}
