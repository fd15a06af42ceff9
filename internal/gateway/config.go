// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
)

// config is what a stage hands to the watcher, and that to its standby, in a memory file.
type config struct {
	Name string // of the gateway
	PID  int
	// Stdin is the gateway's own.
	Stdin file
	Servers
	// Rest is for the process that stays when the gateway and its servers are gone.
	Rest bool

	// Descriptors, or -1.
	Gateway  int // a pidfd
	Control  int // the stage, for the first watcher
	Lifeline int // the watcher, for its standby
	Listener int
	Memory   int
	Board    int
	Explain  int
	Runner   int // the program that is a server's supervisor
}

// descriptors are those that the next process gets in spite of close-on-exec.
func (c *config) descriptors() []int {
	var all []int
	for _, fd := range []int{c.Gateway, c.Control, c.Lifeline, c.Listener, c.Memory, c.Board, c.Explain, c.Runner} {
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
