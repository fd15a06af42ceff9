// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The two programs are the runner, which stands beside every server, and the tool, which people
// use. Each looks for the other beside its own file, and where packages put the tool: in
// ../libexec/mcpscope. PATH is never searched: what is found there may be anyone's.
const (
	Runner = "mcpscope"
	Tool   = "mcpscopectl"
)

// libexec is where packages put what is not meant for PATH, from the directory of the runner.
const libexec = "../libexec/mcpscope"

// OwnCommand is a hidden command of the runner that prints its version, and on a second line what
// it was built from, whatever other program is there.
const OwnCommand = "own-version"

// MissingError says that the other program is not there.
type MissingError struct {
	Name   string
	Looked []string // the files that were tried
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: there is no %s", e.Name, strings.Join(e.Looked, ", and no "))
}

// Own is the file that the calling program runs from. It may have been replaced since.
func Own() (string, error) {
	if own, err := os.Executable(); err == nil {
		return strings.TrimSuffix(own, " (deleted)"), nil // so the kernel marks a file that was replaced
	}
	if strings.Contains(os.Args[0], "/") { // without /proc
		return filepath.Abs(os.Args[0])
	}
	return "", errors.New("it can't be told where this program is: /proc is not mounted")
}

// FindTool finds the tool for the runner.
func FindTool() (string, error) { return find(Tool, ".", libexec) }

// FindRunner finds the runner for the tool.
func FindRunner() (string, error) { return find(Runner, ".", "../../bin") }

func find(name string, dirs ...string) (string, error) {
	own, err := Own()
	if err != nil {
		return "", err
	}
	missing := &MissingError{Name: name}
	for _, dir := range dirs {
		file := filepath.Join(filepath.Dir(own), dir, name)
		err := unix.Access(file, unix.X_OK)
		switch {
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR):
			return "", fmt.Errorf("execute %s: %w", file, err)
		}
		missing.Looked = append(missing.Looked, file)
	}
	return "", missing
}

// OpenRunner opens the runner's file, so that it can be executed as /proc/self/fd/N even when it
// has been replaced by another version.
func OpenRunner() (fd int, err error) {
	file, err := FindRunner()
	if err != nil {
		return -1, err
	}
	fd, err = unix.Open(file, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", file, err)
	}
	return fd, nil
}
