// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/notify"
)

// Gateway is a command that starts servers.
type Gateway struct {
	Name   string
	Path   string // the file to execute
	Argv   []string
	Env    []string
	NoFile unix.Rlimit
	Options
	// Require starts nothing where servers could not be contained.
	Require bool
	// Explain is a descriptor for a line about each child, or -1.
	Explain    int
	Executable string
	// Runner is a descriptor of the program that is a server's brain.
	Runner int
	// Note is told what a user may want to know.
	Note func(text string)
}

// ErrExec marks that it is the gateway's own command that can't be executed.
var ErrExec = errors.New("execute")

// Exec turns the calling process into the gateway: so that keeps the pid, the parent, the session and the
// unit of the caller. It returns only if it can't.
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
	word, err := awaitOK(control)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	listener, err := notify.Install(!mayFilter(), word == okBlind)
	if err != nil {
		return err // the watcher ends with its control socket
	}
	err = unix.Sendmsg(control, []byte("go on"), unix.UnixRights(listener), nil, unix.MSG_NOSIGNAL)
	if err == nil {
		_, err = awaitOK(control) // our copy keeps the listener alive as long as the watcher may die
	}
	_ = unix.Close(listener)
	if err != nil {
		return fmt.Errorf("hand over to the watcher: %w", err)
	}
	return g.exec()
}

func (g *Gateway) startWatcher() (control int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("create control socket: %w", err)
	}
	defer unix.Close(fds[1])
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		_ = unix.Close(fds[0])
		return -1, fmt.Errorf("open pidfd: %w", err)
	}
	defer unix.Close(self)
	c := &config{
		Name: g.Name, PID: os.Getpid(), Stdin: fileAt(os.Getpid(), 0), Options: g.Options,
		Gateway: self, Control: fds[1], Lifeline: -1, Listener: -1, Memory: -1,
		Explain: g.Explain, Runner: g.Runner,
	}
	if err := c.start(g.Executable, g.Env); err != nil {
		_ = unix.Close(fds[0])
		return -1, err
	}
	return fds[0], nil
}

// What a watcher says to its stage, unless it fails.
const (
	ok      = "ok"
	okBlind = "ok, but it may not read the memory of others"
)

// awaitOK reads a word of the watcher, or why it failed.
func awaitOK(control int) (word string, err error) {
	b := make([]byte, 4096)
	for {
		n, err := unix.Read(control, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", fmt.Errorf("read from the watcher: %w", err)
		case n == 0:
			return "", errors.New("the watcher was killed")
		default:
			if why, failed := strings.CutPrefix(string(b[:n]), "failed "); failed {
				return "", errors.New(why)
			}
			return string(b[:n]), nil
		}
	}
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
