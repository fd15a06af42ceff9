// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/spawn"
)

// WatchCommand is the subcommand that is the watcher, and its standby.
const WatchCommand = "watch"

// Options say which children of a gateway are servers, and how they are run.
type Options struct {
	Rules
	// Settings are what Watch's configure makes servers of.
	Settings json.RawMessage
}

// config is what a stage hands to the watcher, and that to its standby, in a memory file.
type config struct {
	Name string // of the gateway
	PID  int
	// Stdin is the gateway's own.
	Stdin file
	Options
	// Blind: memory of the gateway's processes may not be read (yama), so programs are held when they begin.
	Blind bool
	// Rest is for the process that stays when the gateway and its servers are gone.
	Rest bool

	// Descriptors, or -1.
	Gateway  int // a pidfd
	Control  int // the stage, for the first watcher
	Lifeline int // the watcher, for its standby, or the other end
	Listener int
	Memory   int // of requests
	Explain  int
	Runner   int // the program that is a server's brain
}

// descriptors are those that the next process gets in spite of close-on-exec.
func (c *config) descriptors() []int {
	var all []int
	for _, fd := range []int{c.Gateway, c.Control, c.Lifeline, c.Listener, c.Memory, c.Explain, c.Runner} {
		if fd >= 0 {
			all = append(all, fd)
		}
	}
	return all
}

func (c *config) write() (int, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return -1, fmt.Errorf("encode configuration: %w", err)
	}
	return spawn.WriteMemoryFile(b)
}

func readConfig(fd int) (*config, error) {
	b, err := spawn.ReadMemoryFile(fd)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c := &config{}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	for _, fd := range c.descriptors() {
		unix.CloseOnExec(fd)
	}
	return c, nil
}

// line is the command line of a watcher. It has nothing of the gateway's in it but a name: some gateways look
// for others of their kind by that.
func (c *config) line(memory int) []string {
	return []string{"mcpscope", WatchCommand, strconv.Itoa(memory), strconv.Itoa(c.PID), c.Name}
}

// DetachArgument comes before the arguments of a watcher that is to be detached.
const DetachArgument = "detach"

// start starts a watcher or a standby, detached, so that it is not among the gateway's processes.
func (c *config) start(executable string, env []string) error {
	memory, err := c.write()
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	line := slices.Insert(c.line(memory), 2, DetachArgument)
	pid, err := spawn.Start(executable, line, env, append(c.descriptors(), memory), &syscall.SysProcAttr{Setpgid: true})
	if err != nil {
		return fmt.Errorf("start the watcher: %w", err)
	}
	var status unix.WaitStatus
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Wait4(pid, &status, 0, nil)
	}
	if err == nil && status != 0 {
		return fmt.Errorf("detach the watcher: %w", unix.Errno(max(status.ExitStatus(), int(unix.EINTR))))
	}
	return nil
}

// Detach executes the watcher with these arguments and returns the caller's exit status, which is an errno. The caller exits at
// once, so that the watcher is in no process tree. It inherits what the caller has inherited.
func Detach(args []string) int {
	env, err := proc.Environ()
	if err == nil {
		_, err = syscall.ForkExec(executable, append([]string{"mcpscope", WatchCommand}, args...), &syscall.ProcAttr{
			Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return int(errno)
	} else if err != nil {
		return int(unix.EIO)
	}
	return 0
}
