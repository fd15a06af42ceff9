// SPDX-License-Identifier: Apache-2.0

// Package detach starts a command outside the group of every server, as a transient service of systemd.
package detach

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/backend"
)

// startTimeout bounds the time that a manager takes to execute a command.
const startTimeout = 20 * time.Second

// Run starts a command, and returns the exit status.
func Run(operands []string, io cli.Stdio) int {
	if len(operands) == 0 {
		return io.Mistake("detach", "no command given")
	}
	file, err := cli.Lookup(operands[0])
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return (&cli.Printer{Stdio: io}).FailCommand(operands, err)
	}
	if err := start(file, operands[1:]); err != nil {
		return io.CannotWithHint("start "+cli.OneLine(operands[0])+" outside of the server", err,
			"run mcpscope doctor: detach needs a systemd manager")
	}
	return cli.ExitOK
}

func start(file string, args []string) error {
	if err := backend.FindManager(); err != nil {
		return err
	}
	line := []string{
		"--quiet", "--no-ask-password", "--collect", "--same-dir",
		"--unit=detached-" + strings.ToLower(rand.Text()[:8]),
		"--description=" + cli.OneLine(filepath.Base(file)) + ", by mcpscope detach",
		"--service-type=exec",        // so that it returns when the command has been executed
		"--property=ExitType=cgroup"} // the service lasts as long as a process of it
	env := inherited(os.Environ())
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		line = append(line, "--setenv="+name) // without the value, which ps would show
	}
	if uid := os.Getuid(); uid != 0 {
		line = append(line, "--user", "--slice=app.slice")
		// many clients do not pass it to servers
		env = append(env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", uid))
	}
	line = append(line, "--", file)
	for _, arg := range args {
		line = append(line, strings.ReplaceAll(arg, "$", "$$")) // systemd.service(5) replaces variables
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemd-run", line...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New(cmp.Or(strings.TrimSpace(string(out)), err.Error()))
	}
	return nil
}

// own are variables that describe the process to its manager or server.
var own = strings.Fields(`MCPSCOPE_ID INVOCATION_ID JOURNAL_STREAM LISTEN_FDS LISTEN_FDNAMES LISTEN_PID
	MAINPID MANAGERPID NOTIFY_SOCKET SYSTEMD_EXEC_PID WATCHDOG_PID WATCHDOG_USEC`)

// inherited drops the server's own variables, a BROWSER that is mcpscope detach, and variables that a manager
// refuses.
func inherited(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return name == "BROWSER" && strings.Contains(value, cli.Browser) || slices.Contains(own, name) ||
			!accepted.MatchString(v) || !utf8.ValidString(v)
	})
}

// accepted matches the assignment of a variable whose name systemd.exec(5) takes.
var accepted = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
