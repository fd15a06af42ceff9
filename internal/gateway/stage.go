// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/notify"
)

// Gateway is a command that starts servers.
type Gateway struct {
	Name   string
	Path   string // the file to execute
	Argv   []string
	Env    []string
	NoFile unix.Rlimit
	Servers
	// Require starts nothing where servers could not be contained.
	Require bool
	// Explain is a descriptor for a line about each child, or -1.
	Explain    int
	Executable string
	// Runner is a descriptor of the program that is a server's supervisor.
	Runner int
	// Note is told what a user may want to know.
	Note func(text string)
}

// WatchCommand is the subcommand that is the watcher, and its standby.
const WatchCommand = "watch"

// ErrExec marks that it is the gateway's own command that can't be executed.
var ErrExec = errors.New("execute")

// Exec turns the calling process into the gateway: so that keeps the pid, the parent, the
// session and the unit of whoever called. It returns only if it can't.
func (g *Gateway) Exec() error {
	err := g.watched()
	if err == nil || errors.Is(err, ErrExec) || g.Require {
		return err
	}
	g.Note("the servers are not contained: " + err.Error())
	failed := make(chan error)
	go func() { // on another thread: the filter may be on ours
		runtime.LockOSThread()
		failed <- g.exec()
	}()
	runtime.LockOSThread()
	return <-failed
}

// watched starts the watcher, installs the filter and executes.
func (g *Gateway) watched() error {
	control, err := g.startWatcher()
	if err != nil {
		return err
	}
	defer unix.Close(control)
	watcher, err := hear(control)
	if err != nil {
		return err
	}
	if pid, err := strconv.Atoi(watcher); err == nil {
		// Under yama (ptrace_scope=1) it may look at what we have, then, the sockets of our own children
		// among them. That is kept over execve by the first thread alone, which we are: see init.
		_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(pid), 0, 0, 0) // EINVAL without yama
	}
	runtime.LockOSThread()
	var rights []byte
	listener, err := notify.Install(!mayFilter())
	switch {
	case err != nil && g.Require:
		return err
	case err != nil:
		g.Note("servers are contained as soon as they are seen, by when they may have started something: " + err.Error())
	default:
		rights = unix.UnixRights(listener)
	}
	if err = unix.Sendmsg(control, []byte("go on"), rights, nil, unix.MSG_NOSIGNAL); err == nil {
		_, err = hear(control) // our copy keeps the listener alive as long as the watcher may die
	}
	if rights != nil {
		_ = unix.Close(listener)
	}
	if err != nil {
		return fmt.Errorf("hand over to the watcher: %w", err)
	}
	return g.exec()
}

// mayFilter tells whether the kernel takes a filter without no_new_privs.
func mayFilter() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// exec does what execvp(3) does for a script without "#!".
func (g *Gateway) exec() error {
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &g.NoFile, nil); err != nil {
		return fmt.Errorf("restore RLIMIT_NOFILE: %w", err)
	}
	err := notify.Exec(g.Path, g.Argv, g.Env)
	if errors.Is(err, unix.ENOEXEC) {
		err = notify.Exec("/bin/sh", append([]string{"/bin/sh", g.Path}, g.Argv[1:]...), g.Env)
	}
	return fmt.Errorf("%w %s: %w", ErrExec, g.Path, err)
}
