// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Dir is where the manager of this user reads the administrator's, or the user's own, units. A user's shell
// may have another XDG_CONFIG_HOME than the manager: the manager is asked, if there is one.
func Dir() (string, error) {
	if systemd.Own() == systemd.System {
		return "/etc/systemd/system", nil
	}
	dirs, err := systemd.UnitPath(systemd.User)
	if err == nil {
		dir, ok := userDir(dirs)
		if ok {
			return dir, nil
		}
	}
	configurations := settings.UserDir(os.Getenv)
	if configurations == "" {
		return "", errors.New("HOME is not set")
	}
	return filepath.Join(configurations, "systemd", "user"), nil
}

// userDir finds the user's own directory in the unit path of a user's manager. The others are of the system,
// or are lost at the logout.
func userDir(dirs []string) (dir string, ok bool) {
	for _, dir := range dirs {
		top, _, _ := strings.Cut(strings.TrimPrefix(dir, "/"), "/")
		isOfSystem := top == "run" || top == "etc" || top == "usr"
		if strings.HasSuffix(dir, "/systemd/user") && !isOfSystem {
			return dir, true
		}
	}
	return "", false
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

// ErrOfSystem is of a service that only root may change.
var ErrOfSystem = errors.New("is a unit of the system manager")

// CheckOwner returns ErrOfSystem if the system manager has a service, and the manager of this user does not.
func CheckOwner(name ServiceName) error {
	if systemd.Own() == systemd.System {
		return nil
	}
	own, err := systemd.Connect(systemd.User)
	if err == nil {
		_, err = own.Unit(name.Full)
		own.Close()
		if err == nil {
			return nil
		}
	}
	system, err := systemd.Connect(systemd.System)
	if err != nil { // another error is the reason
		return nil
	}
	defer system.Close()
	if _, err := system.Unit(name.Full); err != nil {
		return nil
	}
	return fmt.Errorf("%s %w", name.Full, ErrOfSystem)
}

// systemctl is how this user calls systemctl for the own manager.
func systemctl() string { return "systemctl" + userFlag() }

// journalctl is how this user reads the journal of the own manager's units.
func journalctl() string { return "journalctl" + userFlag() }

func userFlag() string {
	if systemd.Own() == systemd.User {
		return " --user"
	}
	return ""
}

// Step puts files in force.
type Step struct {
	Command string // as a person enters it
	run     func(*systemd.Conn) error
}

// step is a call of systemctl for the manager of this user.
func step(words string, run func(*systemd.Conn) error) Step {
	return Step{Command: systemctl() + " " + words, run: run}
}

// ReloadStep has the manager read changed files.
func ReloadStep() Step { return step("daemon-reload", (*systemd.Conn).Reload) }

// Run takes the step.
func (s Step) Run() error {
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return err
	}
	defer c.Close()
	return s.run(c)
}

// ShellLine makes one line of all steps, for a shell.
func ShellLine(steps []Step) string {
	var commands []string
	for _, s := range steps {
		commands = append(commands, s.Command)
	}
	return strings.Join(commands, " && ")
}
