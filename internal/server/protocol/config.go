// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package protocol has the terms that launcher, tool and journal share: policy, causes, configuration,
// names of directories and processes, and events.
package protocol

import (
	"slices"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
)

// ProtocolVersion is that of the configuration and the attributes.
const ProtocolVersion = 1

const MovedUnknown = "processes that have moved to another cgroup could not be looked for: "

// Facts are the part of a configuration that every command may read. A group has them in an attribute.
type Facts struct {
	Version  int
	Name     string
	Policy   Policy
	Started  int64 // Unix nanoseconds
	Client   ClientFacts
	Launcher Identity
	Engine   string // docker, podman or nerdctl, where it runs in a container
}

// Identity is a process until the machine stops: the pid alone is reused.
type Identity struct {
	PID       int
	Start     uint64 // clock ticks after boot
	Namespace uint64 // the pid namespace that numbers it so
}

// Config is the configuration of a server, for its later brains. The page has it behind the fixed part. A
// brain inherits the environment of the server.
type Config struct {
	Facts
	// Group is where the server is.
	Group Placed
	Argv  []string // any bytes
	// Verbose asks for notes on members that had to be killed, even without a report.
	Verbose bool
	Stderr  Stderr
	Notes   []string
	Report  int    // a descriptor, or -1
	Path    string // of the main process

	Replace bool

	// Of a server that its client has started.
	Taken            bool
	Stdin            File
	Conveyed, Socket bool   // stdin has another end, and is a socket
	Where            string // the client's cgroup
}

// File identifies an open pipe or socket.
type File struct{ Dev, Ino uint64 }

// Placed is a group, by its names.
type Placed struct {
	ID      string
	Dir     string
	Backend Backend
	Managed bool // systemd removes it when it is empty
}

// EngineOf is the container engine that a command line runs, or "".
func EngineOf(argv []string) string {
	if c := name.ContainerOf(argv); c != nil {
		return c.Engine
	}
	return ""
}

// NewConfig has no descriptor.
func NewConfig() *Config { return &Config{Facts: Facts{Version: ProtocolVersion}, Report: -1} }

// ClientFacts is the process that started the server.
type ClientFacts struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks,omitempty"` // clock ticks from boot: with PID, which process it is
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"` // that it is in
}

// SuperviseArgs are the arguments of a later brain, before the descriptors of page and socket. The name is
// for ps.
func SuperviseArgs(server string) []string { return []string{"mcpscope", "supervise", server} }

// forBrains are variables of the Go runtime, which has memory and threads for each processor.
var forBrains = []string{"GOMAXPROCS=1"}

// BrainEnv is the environment of a brain. The runtime uses the first variable of a name.
func BrainEnv(env []string) []string { return slices.Concat(forBrains, env) }

// ServerEnv is the environment of the server, which a brain has inherited.
func ServerEnv() ([]string, error) {
	env, err := proc.Environ()
	return env[min(len(forBrains), len(env)):], err
}

// LimitError: a limit is impossible here. Step is a command that helps, or "".
type LimitError struct{ Text, Step string }

func (e *LimitError) Error() string { return e.Text }
