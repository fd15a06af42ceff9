// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// runRunner becomes the runner. It returns only if it can't.
func runRunner(args []string, io cli.Stdio) int {
	runner, err := cli.FindRunner()
	if err == nil {
		var env []string
		if env, err = proc.Environ(); err == nil {
			err = syscall.Exec(runner, append([]string{runner, "run"}, args...), env)
		}
	}
	p := cli.Printer{Stdio: io}
	return p.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot run: %v", err), "")
}

// programs are the files that a trial runs.
type programs struct {
	runner string
	server string // the tool itself, as a server has to name it
}

func findPrograms() (programs, error) {
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

// ownVersion is ours: of a release, or of the module that this was built from.
func ownVersion() string { return versionIn(cli.Version(), "/proc/self/exe") }

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

// runnerVersion asks the runner for its version, and what it was built from.
func runnerVersion() (version, built string, err error) {
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
