// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// programs are the files that a trial runs.
type programs struct {
	runner string
	server string // the tool itself, as a server has to name it
}

func FindPrograms() (programs, error) {
	runner, err := cli.FindRunner()
	if err != nil {
		return programs{}, err
	}
	server, err := cli.Own()
	if err != nil {
		return programs{}, err
	}
	if _, err := os.Stat(server); err != nil { // the file that we run from has been replaced
		server = fmt.Sprintf("/proc/%d/exe", os.Getpid())
	}
	return programs{runner, server}, nil
}

// OwnVersion is the version of mcpscopectl: of a release, or of the module that this was built from.
func OwnVersion() string { return versionIn(cli.Version(), "/proc/self/exe") }

// versionIn is what a program says of itself or, where no release was linked into it, the build
// information in its file.
func versionIn(said, file string) string {
	if said != cli.Devel {
		return said
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return said
	}
	return info.Main.Version
}

// versionWithin is how long the runner may take to say its version.
const versionWithin = 5 * time.Second

// RunnerVersion asks the runner for its version, and what it was built from.
func RunnerVersion() (version, built string, err error) {
	runner, err := cli.FindRunner()
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), versionWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, runner, cli.OwnCommand).Output()
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", runner, err)
	}
	version, built, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	return versionIn(version, runner), built, nil
}
