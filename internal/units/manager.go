// SPDX-License-Identifier: Apache-2.0

package units

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Dir is where the administrator's, or the user's own, units are.
func Dir() (string, error) { return dirOf(systemd.Own(), settings.UserDir(os.Getenv)) }

// dirOf is Dir for a manager, and for the directory with a user's configurations, "" for a user without home.
func dirOf(manager systemd.Kind, configurations string) (string, error) {
	switch {
	case manager == systemd.System:
		return "/etc/systemd/system", nil
	case configurations == "":
		return "", errors.New("HOME is not set")
	}
	return filepath.Join(configurations, "systemd", "user"), nil
}

// CheckManager returns an error if there is no manager that could start the units of this user.
func CheckManager() error {
	err := systemd.Present(systemd.Own())
	if err == nil {
		return nil
	}
	hasBooted := systemd.Present(systemd.System) == nil
	if systemd.Own() == systemd.User && hasBooted {
		return remedy.With(err, host.EnableLinger())
	}
	return err
}

// managerWithin bounds the wait for a manager, which may hang.
const managerWithin = 5 * time.Second

// managerEnvironment has XDG_RUNTIME_DIR, which clients often do not pass on.
func managerEnvironment() []string {
	return append(os.Environ(), fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", os.Getuid()))
}

// Systemctl returns the output of systemctl.
func Systemctl(manager systemd.Kind, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), managerWithin)
	defer cancel()
	options := []string{"--" + string(manager), "--no-pager"}
	cmd := exec.CommandContext(ctx, "systemctl", slices.Concat(options, args)...)
	cmd.Env = managerEnvironment()
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// journalCommand is how a person reads the journal of a manager's units.
func journalCommand(manager systemd.Kind) string {
	if manager == systemd.User {
		return "journalctl --user"
	}
	return "journalctl"
}

// systemctlCommand is how a person calls systemctl for a manager.
func systemctlCommand(manager systemd.Kind) string {
	switch {
	case manager == systemd.User:
		return "systemctl --user"
	case os.Getuid() != 0:
		return "sudo systemctl"
	}
	return "systemctl"
}

// KillCommand is how a person kills all processes of a unit, also those that are left of a stopped one.
func KillCommand(manager systemd.Kind, unit string) string {
	return systemctlCommand(manager) + " kill --signal=KILL " + cli.Word(unit)
}
