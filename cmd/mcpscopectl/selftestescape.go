// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// stormChains is how many processes of the storm run at any time: each starts another
// and exits.
const stormChains = 8

// escapeCommand is the server of the selftest, and each process that it starts: a user's
// machine has no compiler for a better one.
func escapeCommand(args []string, io cli.Stdio) int {
	var play func() error
	if len(args) == 1 {
		play = role(args[0])
	}
	// by hand there is no leash, and e.g. the parent is a shell that nobody would continue
	if play == nil || args[0] != "bystander" && released(0) {
		fmt.Fprint(io.Err, "mcpscope: escape is started by mcpscope doctor --selftest alone\n")
		return cli.ExitUsage
	}
	if err := play(); err != nil {
		fmt.Fprintf(io.Err, "mcpscope: cannot escape by %s: %s\n", args[0], cli.OneLine(err.Error()))
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// role is what an escapee does: the attempts, then the parts of what they start.
func role(name string) func() error {
	return map[string]func() error{
		"setsid":      func() error { return both(startRole("stay", true), stay) },
		"double-fork": func() error { return both(doubleFork(), stay) },
		"ignore-term": stay,
		"storm":       storm,
		"stop-parent": func() error { return both(stopParent(), stay) },
		"hold-stdout": holdStdout,

		"fork":      func() error { return startRole("stay", false) },
		"stay":      stay,
		"hop":       func() error { return both(register(), hop) },
		"hop-on":    hop,
		"bystander": echo,
	}[name]
}

// both does the second only after the first.
func both(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// register says that one more is there.
func register() error {
	_, err := unix.Write(rollFD, []byte{'.'})
	return err
}

// stay has to be killed, or let go.
func stay() error {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	if err := register(); err != nil {
		return err
	}
	for !released(-1) {
	}
	return nil
}

// released tells whether doctor has let go of us, or is gone.
func released(timeout int) bool {
	fds := []unix.PollFd{{Fd: leashFD}}
	n, err := unix.Poll(fds, timeout)
	return n > 0 || err != nil && err != unix.EINTR
}

// startRole starts another of us with all that we have.
func startRole(role string, session bool) error {
	_, err := forkRole(role, session)
	return err
}

func forkRole(role string, session bool) (pid int, err error) {
	exe, err := cli.Own()
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(exe, []string{"mcpscope", "escape", role}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, rollFD, leashFD}, Sys: &syscall.SysProcAttr{Setsid: session},
	})
}

func doubleFork() error {
	between, err := forkRole("fork", true)
	if err != nil {
		return err
	}
	_, err = syscall.Wait4(between, nil, 0, nil)
	return err
}

func storm() error {
	for range stormChains {
		if err := startRole("hop", true); err != nil {
			return err
		}
	}
	return stay()
}

func hop() error {
	signal.Ignore(unix.SIGTERM)
	if released(0) {
		return nil
	}
	return startRole("hop-on", false)
}

// stopParent stops the supervisor. A parent that died meanwhile would have left us with
// another one.
func stopParent() error {
	parent := os.Getppid()
	pidfd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	if os.Getppid() != parent {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(pidfd, unix.SIGSTOP, nil, 0)
}

// holdStdout ends when it is asked, and leaves a process with its stdout.
func holdStdout() error {
	if err := startRole("stay", true); err != nil {
		return err
	}
	return both(register(), readToEnd)
}

func readToEnd() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func echo() error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}
