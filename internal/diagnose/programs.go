// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// programs are the files for a trial.
type programs struct {
	runner string
	server string // mcpscopectl
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
	if _, err := os.Stat(server); err != nil { // replaced by an upgrade
		server = fmt.Sprintf("/proc/%d/exe", os.Getpid())
	}
	return programs{runner, server}, nil
}

const versionWithin = 5 * time.Second

// RunnerVersion returns the version and the build details of the runner.
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
	return version, built, nil
}
