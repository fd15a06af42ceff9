// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

// Config is what the launcher hands to the supervisor, in a memory file: it may be
// longer than a message, and the command line would show it to everyone. The
// environment is not in it: the supervisor has the server's own.
type Config struct {
	Version int
	Name    string
	Path    string
	Argv    []string // any bytes
	Policy  Policy
	Limits  cgroup.Limits
	Started int64 // Unix nanoseconds
	// Verbose asks for notes on who had to be killed, even without a report.
	Verbose bool
	Stderr  Stderr
	// Pgid is the process group that the main process joins; 0 for one of its own.
	Pgid   int
	NoFile *unix.Rlimit
	// Mask are the signals that the main process has blocked: spawn.Cmd.
	Mask uint64
	// Replace retires older servers of this name and client process.
	Replace bool
	// Place is where the group is, for a supervisor whose group is known when it starts; others are told by a message.
	Place  *Placed
	Client ClientFacts
	// Descriptors, numbered alike in launcher and supervisor.
	ControlIn, ControlOut             int
	Stdin, Input, Stdout, ClientPidfd int
	Launcher                          int // a pidfd
	Report                            int
	// Payload is the directory of Place; the lock is its. Ready is where a byte says that nobody needs to stand by any
	// more (spawn.Pair), or -1.
	Payload, Ready int
	// Alive is an end of a pipe whose other end the guard has, which hangs up when the supervisor is dead: a tracer can keep
	// that death from the parent (ptrace(2)). It is -1 without a guard.
	Alive int
	// Main is a pidfd of the main process where the client has started it, otherwise -1;
	// Held is its stdin where that can be watched only by holding it.
	Main, Held int
	StdinFile  linux.File
	StdoutFile linux.File
	// Where is the launcher's cgroup.
	Where string
	// Conveyed: stdin is a pipe or socket, so it has another end.
	Conveyed bool
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

func (c *Config) fields(w *wire) {
	number(w, &c.Version)
	if c.Version != ProtocolVersion {
		w.err = fmt.Errorf("version %d, expected %d", c.Version, ProtocolVersion)
	}
	text(w, &c.Name)
	text(w, &c.Path)
	texts(w, &c.Argv)
	number(w, &c.Policy.EOFGrace)
	number(w, &c.Policy.TermGrace)
	text(w, &c.Policy.OnClientDeath)
	number(w, &c.Policy.MaxLifetime)
	number(w, &c.Policy.IdleTimeout)
	limitFields(w, &c.Limits)
	number(w, &c.Started)
	flag(w, &c.Verbose)
	flag(w, &c.Replace)
	text(w, &c.Stderr)
	number(w, &c.Pgid)
	if optional(w, &c.NoFile) {
		number(w, &c.NoFile.Cur)
		number(w, &c.NoFile.Max)
	}
	number(w, &c.Mask)
	if optional(w, &c.Place) {
		c.Place.fields(w)
	}
	number(w, &c.Client.PID)
	number(w, &c.Client.Start)
	text(w, &c.Client.Name)
	text(w, &c.Client.Unit)
	for _, fd := range c.descriptors() {
		number(w, fd)
	}
	number(w, &c.StdinFile.Dev)
	number(w, &c.StdinFile.Ino)
	number(w, &c.StdoutFile.Dev)
	number(w, &c.StdoutFile.Ino)
	text(w, &c.Where)
	flag(w, &c.Conveyed)
}

// descriptors are those that the supervisor gets in spite of close-on-exec.
func (c *Config) descriptors() []*int {
	return []*int{&c.ControlIn, &c.ControlOut, &c.Stdin, &c.Input, &c.Stdout, &c.ClientPidfd, &c.Launcher, &c.Report, &c.Payload, &c.Ready, &c.Alive, &c.Main, &c.Held}
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

// SupervisorPath is the name of executable, a file of /proc: the server sees its parent called by the last element of the path that
// was executed.
func SupervisorPath(executable string) string {
	path, err := os.Readlink(executable)
	if err != nil {
		return executable
	}
	return path
}

// SuperviseLine is how the command line of a supervisor begins.
const SuperviseLine = "mcpscope supervise "

// SuperviseArgs: the name is for people who look at ps. main is the pid of a main process that is there already, "0" if
// there is none.
func SuperviseArgs(memory int, main, server string) []string {
	return append(strings.Fields(SuperviseLine), strconv.Itoa(memory), main, server)
}

// MainArgument is the index of that pid.
const MainArgument = 3

// CleanWord is what a process is called with that cleans up after a launcher and a supervisor that were killed.
const CleanWord = "clean"

// CleanArgs are its arguments: the directory of groups, and the group in it.
func CleanArgs(parent int, dir string) []string {
	return append(strings.Fields(SuperviseLine), CleanWord, strconv.Itoa(parent), dir)
}

// forSupervisors are variables of the Go runtime, which has memory and threads for each processor that it may run on: for
// a process that waits, one is enough.
var forSupervisors = []string{"GOMAXPROCS=1"}

// SupervisorEnv is the environment of a supervisor whose server is to have env. The runtime takes the first variable of
// a name, so ours come before the client's.
func SupervisorEnv(env []string) []string { return slices.Concat(forSupervisors, env) }

// ServerEnv is what a supervisor was given for its server.
func ServerEnv() ([]string, error) {
	env, err := proc.Environ()
	return env[min(len(forSupervisors), len(env)):], err
}

// CommOfGuards is the name, in /proc/PID/comm, of the processes that guard servers.
const CommOfGuards = "mcpscope"

// NameProcess gives this process that name, instead of the one of /proc/self/exe.
func NameProcess() {
	_ = os.WriteFile("/proc/self/comm", []byte(CommOfGuards), 0) // for people, and to find trees by
}

// WriteConfig returns a descriptor of the memory file.
func WriteConfig(c *Config) (int, error) {
	return linux.WriteMemoryFile(Encode(c))
}

// ReadConfig reads and closes the memory file.
func ReadConfig(fd int) (*Config, error) {
	b, err := linux.ReadMemoryFile(fd)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var c Config
	if err := Decode(b, &c); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return &c, nil
}

// Inherited lists the descriptors that there are; the payload must not have them.
func (c *Config) Inherited() []int {
	var fds []int
	for _, fd := range c.descriptors() {
		if *fd >= 0 {
			fds = append(fds, *fd)
		}
	}
	return fds
}

// SayReady tells who stands by that nobody needs to any more.
func (c *Config) SayReady() {
	if c.Ready >= 0 {
		spawn.SayReady(c.Ready)
		_ = unix.Close(c.Ready)
	}
}

// LimitError says that a limit can't hold here. Step is what would make it, "" if that is not
// known.
type LimitError struct{ Text, Step string }

func (e *LimitError) Error() string { return e.Text }

func limitFields(w *wire, l *cgroup.Limits) {
	count := len(l.Files)
	number(w, &count)
	if w.decodes {
		if count < 0 || count > len(w.buf) || w.err != nil { // each takes two bytes at least
			w.err = errMalformed
			return
		}
		l.Files = slices.Grow([]cgroup.Limit(nil), count)[:count]
	}
	for i := range l.Files {
		text(w, &l.Files[i].File)
		text(w, &l.Files[i].Value)
	}
	flag(w, &l.BestEffort)
}
