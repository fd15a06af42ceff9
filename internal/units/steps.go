// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// step is a command that puts files in force.
type step struct {
	argv    []string
	mayFail bool
}

// systemctlStep is a call of systemctl for the manager of this user.
func systemctlStep(args ...string) step {
	argv := []string{"systemctl"}
	if systemd.Own() == systemd.User {
		argv = append(argv, "--user")
	}
	return step{argv: append(argv, args...)}
}

func (s step) run() error {
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Env = managerEnvironment()
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	switch {
	case err == nil || s.mayFail:
		return nil
	case text == "": // it was not executed
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

func (s step) String() string { return strings.Join(s.argv, " ") }

// joinSteps makes a line for a shell. The only special character of a name is the backslash.
func joinSteps(steps []step) string {
	var line strings.Builder
	for i, s := range steps {
		line.WriteString(strings.ReplaceAll(s.String(), `\`, `\\`))
		switch {
		case i == len(steps)-1:
		case s.mayFail:
			line.WriteString("; ")
		default:
			line.WriteString(" && ")
		}
	}
	return line.String()
}

func runSteps(steps []step, io cli.Stdio) int {
	for _, s := range steps {
		if err := s.run(); err != nil {
			return io.Cannot(s.String(), err)
		}
		fmt.Fprintf(io.Out, "done: %s\n", s)
	}
	return cli.ExitOK
}
