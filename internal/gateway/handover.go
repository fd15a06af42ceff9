// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/spawn"
)

func (g *Gateway) startWatcher() (control int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("create control socket: %w", err)
	}
	defer unix.Close(fds[1])
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return -1, fmt.Errorf("open pidfd: %w", err)
	}
	defer unix.Close(self)
	c := &config{
		Name: g.Name, PID: os.Getpid(), Stdin: ownStdin(), Servers: g.Servers,
		Gateway: self, Control: fds[1], Lifeline: -1, Listener: -1, Memory: -1, Board: -1, Explain: g.Explain, Runner: g.Runner,
	}
	if err := c.start(g.Executable, g.Env); err != nil {
		_ = unix.Close(fds[0])
		return -1, err
	}
	return fds[0], nil
}

// ownStdin is what the gateway's own workers may share with it.
func ownStdin() file {
	var st unix.Stat_t
	if unix.Fstat(0, &st) != nil {
		return file{}
	}
	f, _ := fileOf(&st)
	return f
}

// start starts a watcher or a standby, detached, so that whoever ends the gateway's processes
// does not find it among them. Its command line has nothing of the gateway's in it but a name:
// some gateways look for others of their kind by that.
func (c *config) start(executable string, env []string) error {
	memory, err := c.write()
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	cmd := spawn.Cmd{
		Path: executable, Argv: []string{"mcpscope", WatchCommand, strconv.Itoa(memory), c.Name}, Env: env,
		Detach: true, Keep: append(c.descriptors(), memory),
	}
	if _, err := cmd.Start(); err != nil {
		return fmt.Errorf("start the watcher: %w", err)
	}
	return nil
}

// hear waits for a word of the watcher: "ok", or why not.
func hear(control int) (string, error) {
	b := make([]byte, 4096)
	for {
		n, err := unix.Read(control, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", fmt.Errorf("hear from the watcher: %w", err)
		case n == 0:
			return "", errors.New("the watcher was killed")
		default:
			word, text, _ := strings.Cut(string(b[:n]), " ")
			if word != "ok" {
				return "", errors.New(text)
			}
			return text, nil
		}
	}
}
