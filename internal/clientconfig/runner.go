// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/programs"
)

// Installed is the program that clients are to start: the given one or, for "", the runner beside this
// program.
func Installed(given string) (string, error) {
	if given != "" {
		return checked(given)
	}
	runner, err := programs.FindRunner()
	if err != nil {
		return "", err
	}
	path := programs.LastingName(runner)
	if err := programs.CheckTemporary(path); err != nil {
		return "", err
	}
	return checked(path)
}

// checked returns the absolute path of a program that lasts, that can be executed, and that unwrap will
// recognize.
func checked(program string) (string, error) {
	path, err := filepath.Abs(program)
	if err != nil {
		return "", err
	}
	if err := programs.CheckLasting(path); err != nil {
		return "", err
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", err
	}
	if filepath.Base(path) != wrapping.Program {
		return "", fmt.Errorf("%s is not called %s: unwrap would not recognize it", path, wrapping.Program)
	}
	return path, nil
}
