// SPDX-License-Identifier: Apache-2.0

package units

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// gateway returns a drop-in for the service of a gateway.
func gateway(unit string, by Programs) (File, error) {
	out, err := Systemctl(systemd.Own(), "cat", unit)
	if err != nil {
		return File{}, err
	}
	return dropIn(unit, out, by)
}

// managerWithin bounds the wait for a manager, which may hang.
const managerWithin = 5 * time.Second

// Systemctl returns the output of systemctl. Clients often do not pass XDG_RUNTIME_DIR on.
func Systemctl(of systemd.Kind, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), managerWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "systemctl", append([]string{"--" + string(of), "--no-pager"}, args...)...)
	c.Env = append(os.Environ(), fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", os.Getuid()))
	out, err := c.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// dropIn takes the command from the files of the unit: there its specifiers, variables and quotes are as they
// were written.
func dropIn(unit, files string, by Programs) (File, error) {
	var commands []string
	identifier, ours := "", false
	file := File{Name: dropInOf(unit)}
	for line := range strings.Lines(strings.ReplaceAll(files, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(line, "# /"): // systemctl cat prints the path before each file
			ours = strings.HasSuffix(line, "/"+file.Name)
		case ours:
		case key == "SyslogIdentifier":
			identifier = value
		case key == "ExecStart" && value == "":
			commands = nil
		case key == "ExecStart":
			commands = append(commands, value)
		}
	}
	if len(commands) != 1 {
		return file, fmt.Errorf("%s starts %d commands (ExecStart=); mcpscope needs one", unit, len(commands))
	}
	command := strings.TrimLeft(commands[0], "-:+!@|")
	prefix := strings.TrimSuffix(commands[0], command)
	word := firstWord.FindString(command)
	program := path.Base(strings.Trim(word, `"'`))
	switch {
	case strings.ContainsAny(prefix, "@|"):
		return file, fmt.Errorf("mcpscope does not support the prefix %q of ExecStart= in %s", prefix, unit)
	case program == cli.Runner && strings.HasPrefix(strings.TrimSpace(command[len(word):]), "gateway "):
		return file, fmt.Errorf("the command of %s is mcpscope gateway already", unit)
	}
	file.Text = strings.NewReplacer("@PREFIX@", prefix, "@COMMAND@", command,
		"@IDENTIFIER@", cmp.Or(identifier, program)).Replace(text("gateway.conf", by))
	return file, nil
}

var firstWord = regexp.MustCompile(`^("[^"]*"|'[^']*'|\S+)`)

func dropInOf(unit string) string { return path.Join(unit+".d", "mcpscope.conf") }
