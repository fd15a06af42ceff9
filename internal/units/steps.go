// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// Step is a command that puts files in force.
type Step struct {
	Argv    []string
	MayFail bool // the steps after it do not need it
}

// systemctlStep is a call of systemctl for the manager of this user.
func systemctlStep(args ...string) Step {
	argv := []string{"systemctl"}
	if systemd.Own() == systemd.User {
		argv = append(argv, "--user")
	}
	return Step{Argv: append(argv, args...)}
}

// ReloadStep has the manager read changed files.
func ReloadStep() Step { return systemctlStep("daemon-reload") }

// Run executes the step. Its error contains the output of the command.
func (s Step) Run() error {
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Env = managerEnvironment()
	out, err := cmd.CombinedOutput()
	if err == nil || s.MayFail {
		return nil
	}
	text := strings.TrimSpace(string(out))
	if text == "" { // it was not executed
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// String returns the words of the command.
func (s Step) String() string { return strings.Join(s.Argv, " ") }

// ShellLine makes one line of all steps, for a shell. The only special character of a name is the backslash.
func ShellLine(steps []Step) string {
	var line strings.Builder
	for i, s := range steps {
		line.WriteString(strings.ReplaceAll(s.String(), `\`, `\\`))
		isLast := i == len(steps)-1
		switch {
		case isLast:
		case s.MayFail:
			line.WriteString("; ")
		default:
			line.WriteString(" && ")
		}
	}
	return line.String()
}
