// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// Installed is the program that clients are to start: the given one or, for "", the runner beside this
// program.
func Installed(given string) (string, error) {
	path := given
	if path == "" {
		own, err := cli.FindRunner()
		if err != nil {
			return "", err
		}
		path = lastingName(own)
		for _, temporary := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
			if strings.HasPrefix(path, temporary+"/") || strings.Contains(path, "/go-build") {
				return "", errors.New("mcpscope is in a temporary directory: " + path)
			}
		}
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err == nil && filepath.Base(path) != wrapping.Program {
		err = fmt.Errorf("%s is not called %s: unwrap would not recognize it", path, wrapping.Program)
	}
	return path, err
}

// lastingName returns the name in PATH of the same file, if there is one. The directory of the file itself
// can be that of a version (Homebrew, Nix), which an upgrade removes.
func lastingName(file string) string {
	found, err := exec.LookPath(cli.Runner)
	if err != nil || !filepath.IsAbs(found) {
		return file
	}
	here, err := os.Stat(file)
	if err != nil {
		return file
	}
	there, err := os.Stat(found)
	if err != nil || !os.SameFile(here, there) {
		return file
	}
	return found
}
