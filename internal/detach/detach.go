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
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/server/backend"
)

// startTimeout bounds the time that a manager takes to execute a command.
const startTimeout = 20 * time.Second

// FindCommand returns the absolute path of the file that execvp(3) would execute.
func FindCommand(command string) (string, error) {
	file, err := programs.Lookup(command)
	if err != nil {
		return "", err
	}
	return filepath.Abs(file)
}

// Start returns when the service has executed the file. leftOut are the names of variables that the command
// does not get, because no manager takes such a name.
func Start(file string, args []string) (leftOut []string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	env, leftOut := inherited(os.Environ())
	if err := checkText(env, append([]string{file}, args...), dir); err != nil {
		return nil, err
	}
	err = start(env, file, args)
	return leftOut, remedy.With(err, "run mcpscope doctor: detach needs a systemd manager")
}

// checkText refuses what is not UTF-8, which D-Bus cannot convey. A command without one of its variables
// would be another command.
func checkText(env, args []string, dir string) error {
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if !utf8.ValidString(value) {
			err := fmt.Errorf("the variable %s is not UTF-8, and systemd takes no other text", name)
			return remedy.With(err, "without the variable: env -u "+name+" mcpscope detach -- …")
		}
	}
	for _, arg := range args {
		if !utf8.ValidString(arg) {
			return fmt.Errorf("the argument %q is not UTF-8, and systemd takes no other text", arg)
		}
	}
	if !utf8.ValidString(dir) {
		return fmt.Errorf("the directory %q is not UTF-8, and systemd takes no other text", dir)
	}
	return nil
}

func start(env []string, file string, args []string) error {
	if err := backend.FindManager(); err != nil {
		return err
	}
	uid := os.Getuid()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemd-run", runArguments(uid, env, file, args)...)
	cmd.Env = env
	if uid != 0 { // many clients do not pass it to servers
		cmd.Env = append(cmd.Env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", uid))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New(cmp.Or(strings.TrimSpace(string(out)), err.Error()))
	}
	return nil
}

// runArguments returns the arguments of systemd-run(1). The manager of a user starts the service of a user.
func runArguments(uid int, env []string, file string, args []string) []string {
	line := []string{
		"--quiet", "--no-ask-password", "--collect", "--same-dir",
		"--unit=detached-" + strings.ToLower(rand.Text()[:8]),
		"--description=" + cli.OneLine(filepath.Base(file)) + ", by mcpscope detach",
		"--service-type=exec",        // so that it returns when the command has been executed
		"--property=ExitType=cgroup", // the service lasts as long as a process of it
	}
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		line = append(line, "--setenv="+name) // without the value, which ps would show
	}
	if uid != 0 {
		line = append(line, "--user", "--slice=app.slice")
	}
	line = append(line, "--", file)
	for _, arg := range args {
		line = append(line, strings.ReplaceAll(arg, "$", "$$")) // systemd.service(5) replaces variables
	}
	return line
}

// describing are variables that describe the calling process to its manager or server.
var describing = strings.Fields(`MCPSCOPE_ID INVOCATION_ID JOURNAL_STREAM LISTEN_FDS LISTEN_FDNAMES LISTEN_PID
	MAINPID MANAGERPID NOTIFY_SOCKET SYSTEMD_EXEC_PID WATCHDOG_PID WATCHDOG_USEC`)

// inherited drops variables that describe the calling process, and returns the names that a manager refuses.
func inherited(env []string) (kept, refused []string) {
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case slices.Contains(describing, name):
		case !accepted.MatchString(variable):
			refused = append(refused, name)
		default:
			kept = append(kept, variable)
		}
	}
	return kept, refused
}

// accepted matches the assignment of a variable whose name systemd.exec(5) takes.
var accepted = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
