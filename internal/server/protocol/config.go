// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
)

// ProtocolVersion is that of the configuration and the attributes.
const ProtocolVersion = 1

// MovedUnknown begins a note.
const MovedUnknown = "processes that have moved to another cgroup could not be looked for: "

// Config is what a later brain has to know. It is on the page behind the fixed part. The environment is not in it: a brain
// has the server's own.
type Config struct {
	Version int
	// Group is where the server is.
	Group   Placed
	Name    string
	Argv    []string // any bytes
	Policy  Policy
	Started int64 // Unix nanoseconds
	// Verbose asks for notes on members that had to be killed, even without a report.
	Verbose bool
	Stderr  Stderr
	// Launcher is the identity of the launcher.
	Launcher string
	Client   ClientFacts
	Notes    []string
	Report   int    // a descriptor, or -1
	Path     string // of the main process

	// Of a server that its client has started: descriptors of its first brain.
	Taken                                   bool
	Payload                                 int
	Main                                    int // a pidfd
	Held                                    int // stdin, where that can be watched only by holding it
	Stdin, Input, Stdout, Room, ClientPIDFD int // what is watched
	Alive                                   int // the end of a pipe that the watcher of a gateway has
	Replace                                 bool
	StdinFile                               File
	Conveyed, Socket                        bool   // stdin has another end, and is a socket
	Where                                   string // the client's cgroup
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

// Engine is the container engine that is asked for what the server runs in, or "".
func (c *Config) Engine() string { return EngineOf(c.Argv) }

// EngineOf is the same of a command line.
func EngineOf(argv []string) string {
	if c := name.ContainerOf(argv); c != nil {
		return c.Engine
	}
	return ""
}

func (c *Config) descriptors() []*int {
	return []*int{&c.Payload, &c.Main, &c.Held, &c.Stdin, &c.Input, &c.Stdout, &c.ClientPIDFD, &c.Alive, &c.Room}
}

// Inherited are the descriptors of a taken server's first brain.
func (c *Config) Inherited() (fds []int) {
	for _, fd := range append(c.descriptors(), &c.Report) {
		if *fd >= 0 {
			fds = append(fds, *fd)
		}
	}
	return fds
}

// NewConfig has no descriptors.
func NewConfig() *Config {
	c := &Config{Version: ProtocolVersion, Report: -1}
	for _, fd := range c.descriptors() {
		*fd = -1
	}
	return c
}

// ClientFacts says who started the server.
type ClientFacts struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks,omitempty"` // clock ticks from boot: with PID, which process it is
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"` // that it is in
}

// String is the attribute: the name, which may be anything, comes last.
func (c ClientFacts) String() string { return fmt.Sprintf("%d %d %s", c.PID, c.Start, c.Name) }

func ParseClient(attr string) ClientFacts {
	var c ClientFacts
	pid, rest, _ := strings.Cut(attr, " ")
	start, name, _ := strings.Cut(rest, " ")
	c.PID, _ = strconv.Atoi(pid)                  // 0, if it is none
	c.Start, _ = strconv.ParseUint(start, 10, 64) // as above
	c.Name = name
	return c
}

// SuperviseArgs are the arguments of a later brain; the descriptors of page and socket come after them. The server's name is for
// people who look at ps.
func SuperviseArgs(server string) []string { return []string{"mcpscope", "supervise", server} }

// forBrains are variables of the Go runtime, which has memory and threads for each processor that it may run on: for
// a process that waits, one is enough.
var forBrains = []string{"GOMAXPROCS=1"}

// BrainEnv is the environment of a brain whose server has env. The runtime takes the first variable of a name, so ours
// come before the client's.
func BrainEnv(env []string) []string { return slices.Concat(forBrains, env) }

// ServerEnv is what a brain was given for its server.
func ServerEnv() ([]string, error) {
	env, err := proc.Environ()
	return env[min(len(forBrains), len(env)):], err
}

// LimitError says that a limit can't hold here. Step is what would make it, "" if that is not
// known.
type LimitError struct{ Text, Step string }

func (e *LimitError) Error() string { return e.Text }
