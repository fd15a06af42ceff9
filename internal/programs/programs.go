// SPDX-License-Identifier: Apache-2.0

// Package programs finds the two programs of mcpscope, their versions, and the programs of others.
package programs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The runner runs next to every server; people use the tool. Each searches for the other in its own
// directory, and where packages install it (../libexec/mcpscope). PATH is not searched: any user may have put
// files there.
const (
	Runner = "mcpscope"
	Tool   = "mcpscopectl"
)

// libexec is the directory of the tool in packages, relative to that of the runner.
const libexec = "../libexec/mcpscope"

// OwnCommand is a hidden command of the runner. It prints the version and, on a second line, the build
// details.
const OwnCommand = "own-version"

// MissingError: the other program is not installed.
type MissingError struct {
	Name   string
	Looked []string // the missing files
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: there is no %s", e.Name, strings.Join(e.Looked, ", and no "))
}

// Own returns the file of the calling program, which may have been replaced meanwhile.
func Own() (string, error) {
	if own, err := os.Executable(); err == nil {
		return strings.TrimSuffix(own, " (deleted)"), nil // the kernel's mark of a replaced file
	}
	if strings.Contains(os.Args[0], "/") { // without /proc
		return filepath.Abs(os.Args[0])
	}
	return "", errors.New("the path of this program is unknown: /proc is not mounted")
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
