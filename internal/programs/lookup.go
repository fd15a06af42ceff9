// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"cmp"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Lookup finds the file that execvp(3) would execute: command itself if it has a slash, otherwise the first
// executable file in the directories of PATH. It remembers a file that may not be executed, and goes on.
func Lookup(command string) (string, error) {
	if command == "" || strings.Contains(command, "/") {
		if err := executable(command); err != nil {
			return "", &protocol.CommandError{Command: command, Errno: err}
		}
		return command, nil
	}
	path, set := os.LookupEnv("PATH")
	if !set {
		path = "/bin:/usr/bin"
	}
	return LookupIn(path, command)
}

// LookupIn is Lookup of a command without a slash in the directories of path.
func LookupIn(path, command string) (string, error) {
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
	return "", &protocol.CommandError{Command: command, Errno: worst}
}

func executable(file string) error {
	// with the effective ids, as execve would
	err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
	var st unix.Stat_t
	if err != unix.ENOENT && unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	return err
}
