// SPDX-License-Identifier: Apache-2.0

// Package protocol describes a server for all processes that read about it: its configuration, with the
// encoding on the page and in the attribute of its group, its client and its figures.
package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// ProtocolVersion is the version of the configuration and of the attributes.
const ProtocolVersion = 1

// Facts are the part of a configuration that every command may read. A group has them in an attribute. Their
// order is that of the wire: append fields alone, and raise ProtocolVersion.
type Facts struct {
	Version  int
	Name     string
	Policy   policy.Policy
	Started  int64 // Unix nanoseconds
	Client   ClientFacts
	Launcher Identity // mcpscope run; of a gateway's server the watcher
	Guard    Identity // of a gateway's server the gateway's guard; zero below mcpscope run
	Engine   string   // docker, podman or nerdctl, where it runs in a container
	// Recipe identifies how a gateway has started the server: its command, arguments, directory and
	// variables. It is 0 for a server of mcpscope run, which its name identifies.
	Recipe uint64
	Origin
}

// Role identifies a server for its client: of two servers of one client in the same role one is a copy.
func (f *Facts) Role() string {
	if f.Recipe != 0 {
		return fmt.Sprintf("recipe %x", f.Recipe)
	}
	return "name " + f.Name
}

// Identity is a process until the machine stops: the pid alone is reused.
type Identity struct {
	PID       int
	Start     uint64 // clock ticks after boot
	Namespace uint64 // the pid namespace that numbers it so
}

// Config is the configuration of a server, for its helpers. The page has it behind the fixed part. A
// helper inherits the environment of the server.
type Config struct {
	Facts  Facts
	Group  Placed
	Argv   []string // any bytes
	Path   string   // of the main process
	Output Output

	Replace bool

	Foreign         bool // the launcher had children before: see group.SpareForeign
	StartedByClient bool // without a launcher: see launcher.TakenServer
	Side            ClientSide
	Position        string   // of the client in the hierarchy of cgroups
	Main            Identity // of one that is taken
	Missed          []Missed // the places that were tried before this one
	Keep            policy.Keep
}

// Output is what people and programs get to read of a server.
type Output struct {
	Verbose bool // asks for notes on members that had to be killed, even without a report
	Quiet   bool // print nothing, not even failures
	Stderr  Stderr
	Notes   []string
	Report  int // a descriptor, or -1
}

// Missed is an error of a place that did not work, for main where the next one does not either.
type Missed struct {
	Text    string
	Errno   uint64 // 0 for none
	Kinds   uint64 // a bit for each of launcher's kinds
	IsLimit bool
	Limit   LimitError
}

// ClientSide is the client's side of a server, as a helper has it.
type ClientSide struct {
	File     File   // stdin
	Output   File   // stdout
	Conveyed bool   // stdin is a pipe or socket, so it has another end
	Socket   bool   // stdin is a socket
	Where    string // the cgroup that the client has started the launcher in
}

// File identifies an open pipe or socket.
type File struct{ Dev, Ino uint64 }

// Placed is a group, by its names. A directory of our own is not Managed. A scope is, whether systemd has
// made it (Scope), or takes over a directory that we have made while its server runs.
type Placed struct {
	ID        string
	Dir       string
	Backend   names.Backend
	Managed   bool // systemd removes it when it is empty
	Scope     bool // systemd has made it
	InSession bool // it is in the directory of a session
}

// Kept are processes that have outlived their server, since a pattern keeps them. Their group has that in an
// attribute, which processes of their user can write.
type Kept struct {
	Version int
	Name    string // of the program
	Server  string // its name
	From    string // its id
	Client  ClientFacts
	Origin
	Since int64 // Unix nanoseconds
	Until int64 // the same, 0 for no limit
}

// EngineOf is the container engine that a command line runs, or "".
func EngineOf(argv []string) string {
	if c := name.ContainerOf(argv); c != nil {
		return c.Engine
	}
	return ""
}

// NewConfig has no file for a report.
func NewConfig() *Config {
	return &Config{Facts: Facts{Version: ProtocolVersion}, Output: Output{Report: -1}}
}

// ClientFacts is the process that started the server.
type ClientFacts struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks,omitempty"` // clock ticks from boot: with PID, which process it is
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"` // that it is in
}

// LimitError: a limit is impossible here.
type LimitError struct {
	Text string
	Step string // a command that helps, or ""
	// The fields below are those of a limit whose file could not be written.
	File    string
	Cause   string // the text without the file and its value
	Missing string // the controller that the group lacks, or "" for another cause
}

func (e *LimitError) Error() string { return e.Text }

// CommandMost is how much of a command line is kept, in bytes.
const CommandMost = 256

// CommandError says why a command can't be executed; it unwraps to the errno:
// ENOENT for one that is not there, otherwise EACCES, EISDIR and the like.
type CommandError struct {
	Command string
	Errno   error
}

func (e *CommandError) Error() string { return fmt.Sprintf("%s: %v", e.Command, e.Errno) }

func (e *CommandError) Unwrap() error { return e.Errno }

// wire encodes or decodes the fields of a struct in their order: numbers as varints, texts and lists after
// their length. encoding/json would cost every start 0.45 ms.
type wire struct {
	buf     []byte
	decodes bool
	err     error // the first: after it nothing is decoded
}

// Encode encodes a struct whose first field is the version (*Facts, *Config).
func Encode(of any) []byte {
	w := &wire{}
	w.value(reflect.ValueOf(of).Elem())
	return w.buf
}

var errMalformed = errors.New("malformed")

// Decode reads into a value what Encode has written of another one of its type.
func Decode(b []byte, into any) error {
	w := &wire{buf: b, decodes: true}
	if version, _ := binary.Varint(b); version != ProtocolVersion { // comes first
		return fmt.Errorf("version %d, expected %d", version, ProtocolVersion)
	}
	w.value(reflect.ValueOf(into).Elem())
	if w.err == nil && len(w.buf) > 0 {
		return errMalformed
	}
	return w.err
}

func (w *wire) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			w.value(v.Field(i))
		}
	case reflect.Slice:
		n := w.length(v.Len())
		if w.decodes {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			w.value(v.Index(i))
		}
	case reflect.String:
		n := w.length(v.Len())
		if w.decodes {
			v.SetString(string(w.buf[:n]))
			w.buf = w.buf[n:]
		} else {
			w.buf = append(w.buf, v.String()...)
		}
	case reflect.Bool:
		n := int64(0)
		if v.Bool() {
			n = 1
		}
		v.SetBool(w.number(n) != 0)
	case reflect.Uint64:
		v.SetUint(uint64(w.number(int64(v.Uint()))))
	default: // any other kind panics here
		v.SetInt(w.number(v.Int()))
	}
}

func (w *wire) number(n int64) int64 {
	if !w.decodes {
		w.buf = binary.AppendVarint(w.buf, n)
		return n
	}
	n, size := binary.Varint(w.buf)
	if size <= 0 || w.err != nil {
		w.err = errMalformed
		return 0
	}
	w.buf = w.buf[size:]
	return n
}

// length accepts what the rest can contain: each character and element takes a byte at least.
func (w *wire) length(n int) int {
	n = int(w.number(int64(n)))
	if w.decodes && (n < 0 || n > len(w.buf)) {
		w.err = errMalformed
		return 0
	}
	return n
}

// EndWithin is more than a stop takes after the grace. Then the guard replaces a helper that does not
// respond.
func EndWithin(c *Config) time.Duration {
	within := 5*policy.KillWithin + max(c.Facts.Policy.TermGrace, 0)
	if c.Facts.Engine != "" {
		within += 2*policy.EngineWithin + policy.FiniteGrace(c.Facts.Policy.TermGrace)
	}
	return within
}
