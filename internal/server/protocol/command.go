// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"cmp"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// CommandMost is how much of a command line is kept, in bytes.
const CommandMost = 256

// CommandError says why a command can't be executed; it unwraps to the errno:
// ENOENT for one that is not there, otherwise EACCES, EISDIR and the like.
type CommandError struct {
	Command string
	Errno   error
}

func (e *CommandError) Error() string { return fmt.Sprintf("%s: %v", e.Command, e.Errno) }

func (e *CommandError) Unwrap() error { return e.Errno }

// Lookup finds what execvp(3) would execute: command itself if it has a slash,
// otherwise the first executable file in the directories of path. A file that may
// not be executed is remembered and the search goes on.
func Lookup(command, path string) (string, error) {
	if command == "" || strings.Contains(command, "/") {
		if err := executable(command); err != nil {
			return "", &CommandError{command, err}
		}
		return command, nil
	}
	worst := error(unix.ENOENT)
	for dir := range strings.SplitSeq(path, ":") {
		file := cmp.Or(dir, ".") + "/" + command
		switch err := executable(file); err {
		case nil:
			return file, nil
		case unix.EACCES, unix.EISDIR:
			worst = err
		}
	}
	return "", &CommandError{command, worst}
}

func executable(file string) error {
	var st unix.Stat_t
	err := unix.Stat(file, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	if err == nil { // with the effective ids, as execve would
		err = unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
	}
	return err
}
