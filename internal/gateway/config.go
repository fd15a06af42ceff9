// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"encoding/json"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/spawn"
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
	return linux.WriteMemoryFile(b)
}

func readConfig(fd int) (*config, error) {
	b, err := linux.ReadMemoryFile(fd)
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

// start starts a watcher or a standby, detached, so that it is not among the gateway's processes.
func (c *config) start(executable string, env []string) error {
	memory, err := c.write()
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	keep := append(c.descriptors(), memory)
	cmd := spawn.Cmd{Path: executable, Argv: c.line(memory), Env: env, Detach: true, Keep: keep}
	if _, err := cmd.Start(); err != nil {
		return fmt.Errorf("start the watcher: %w", err)
	}
	return nil
}
