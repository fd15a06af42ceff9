// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package detach starts a command outside of every server, as a transient service of systemd.
package detach

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// detachWithin is how long a manager may take to start a command.
const detachWithin = 20 * time.Second

// Run starts a command, and returns the exit status.
func Run(operands []string, io cli.Stdio) int {
	if len(operands) == 0 {
		return io.Mistake("detach", "which command? Give one, like xdg-open URL")
	}
	file, err := protocol.Lookup(operands[0], cli.SearchPath())
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return (&cli.Printer{Stdio: io}).FailCommand(operands, err)
	}
	if err := start(file, operands); err != nil {
		return io.CannotWithHint("start "+cli.OneLine(operands[0])+" outside of the server", err,
			"it takes systemd: mcpscope doctor says whether there is a manager")
	}
	return cli.ExitOK
}

func start(file string, argv []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := backend.FindManager(); err != nil {
		return err
	}
	kind, slice := systemd.Own(), ""
	if kind == systemd.User {
		slice = "app.slice"
	}
	m, err := systemd.Dial(kind, detachWithin)
	if err != nil {
		return err
	}
	defer m.Close()
	name := unitPart.ReplaceAllString(filepath.Base(argv[0]), "_")
	return m.Run(systemd.TransientService{
		Name: fmt.Sprintf("detached-%.40s-%s.service", name, strings.ToLower(rand.Text()[:8])), Slice: slice, Description: cli.OneLine(filepath.Base(argv[0])) + ", by mcpscope detach",
		Path: file, Argv: argv, Env: detachedEnvironment(os.Environ()), Dir: dir,
	}, detachWithin)
}

// unitPart is what is not put into the name of a unit.
var unitPart = regexp.MustCompile(`[^A-Za-z0-9_.]`)

// notHanded are variables that say what a process is to its manager or server.
var notHanded = []string{"MCPSCOPE_ID", "INVOCATION_ID", "JOURNAL_STREAM", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "MAINPID", "MANAGERPID", "NOTIFY_SOCKET", "SYSTEMD_EXEC_PID", "WATCHDOG_PID", "WATCHDOG_USEC"}

// detachedEnvironment leaves out what is the server's own, BROWSER if it is this command, and what a manager refuses.
func detachedEnvironment(env []string) (kept []string) {
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		ours := name == "BROWSER" && strings.Contains(value, cli.Browser)
		if !ours && !slices.Contains(notHanded, name) && variable.MatchString(name) && printable(value) {
			kept = append(kept, v)
		}
	}
	return kept
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// printable is what systemd.exec(5) takes as the value of a variable.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' })
}
