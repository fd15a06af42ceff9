// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package scope is a contained server as a library: Server.Run runs a command in a control group of its own and
// returns when nothing of it is left; List, Sweep and their kin are about all servers of a user.
//
// It needs Linux 5.4 or newer. The program that calls it has to let itself be executed as a supervisor: its main
// function calls Supervise when it is started so (see cmd/mcpscope). The package never prints or exits.
package scope

import (
	"time"

	"github.com/mcpscope/mcpscope/scope/internal/backend"
	"github.com/mcpscope/mcpscope/scope/internal/fleet"
	"github.com/mcpscope/mcpscope/scope/internal/hierarchy"
	"github.com/mcpscope/mcpscope/scope/internal/hostinfo"
	"github.com/mcpscope/mcpscope/scope/internal/launcher"
	"github.com/mcpscope/mcpscope/scope/internal/lifecycle"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/scope/internal/report"
	"github.com/mcpscope/mcpscope/scope/internal/supervisor"
	"github.com/mcpscope/mcpscope/scope/internal/sweep"
)

// Child is a process of the client's that is about to become a server. Whoever knows of it
// keeps it from forking meanwhile.
type Child = lifecycle.Child

// Taken is a server that its client has started, in a group of its own.
type Taken = launcher.Taken

// Cause is why a server came to its end. The first one wins.
type Cause = protocol.Cause

// Changed is a limit of a server that was set while it ran.
type Changed = fleet.Changed

// Shortages are what a server lacked so far.
type Shortages = fleet.Shortages

// CommandError says why a command can't be executed; it unwraps to the errno:
// ENOENT for one that is not there, otherwise EACCES, EISDIR and the like.
type CommandError = protocol.CommandError

// Event is a kind of entry in the journal.
type Event = protocol.Event

// Stderr is where the server's stderr goes.
type Stderr = protocol.Stderr

// Member is one process of a server.
type Member = fleet.Member

// Ancestor is a process above a client.
type Ancestor = fleet.Ancestor

// Server is one command to be run in a group of its own.
type Server = launcher.Server

// Outcome is how a server ended.
type Outcome = launcher.Outcome

// Lineage is the id of a process and of all that it starts, where those are in no group of
// their own: they are found by a tag alone. A server that is run or taken leaves it.
type Lineage = launcher.Lineage

// State is where a server is on its way.
type State = fleet.State

// Listed is a server as anyone of its user can see it. What is in it was written by
// processes of that user, and may be anything.
type Listed = fleet.Listed

// Usage is what a server has now. What can't be told is nil.
type Usage = fleet.Usage

// Backend names where a group comes from. Everything above that is the same.
type Backend = protocol.Backend

// NoBackendError has the reason of each backend that was tried.
type NoBackendError = backend.NoBackendError

// Policy says how patiently a server is ended.
type Policy = protocol.Policy

// ClientDeath is what to do when the client has died: the process that started the launcher.
type ClientDeath = protocol.ClientDeath

// Pressure is for how long members had to wait for something since the start: some of them, and
// all (PSI, Linux 4.20).
type Pressure = protocol.Pressure

// Report is the line written when a server has ended. Fields are only ever added.
type Report = report.Report

// Killed is a member that did not end when asked. Facts are observed, never
// guessed.
type Killed = report.Killed

// LimitError says that a limit can't hold here. Step is what would make it, "" if that is not
// known.
type LimitError = protocol.LimitError

// Consumer is a member with much memory.
type Consumer = report.Consumer

// OutOfMemory says that the kernel has killed members for lack of memory.
type OutOfMemory = report.OutOfMemory

// PIDsRefused says that members could not fork.
type PIDsRefused = report.PIDsRefused

// Host is what can be read about a host without changing anything on it. It explains
// why a backend works or does not; whether it does, only a server that is run in it
// tells. Fields are only ever added.
type Host = hostinfo.Host

// Hierarchy is where we are in which cgroup2 hierarchy.
type Hierarchy = hostinfo.Hierarchy

// InitFacts are about the process that orphans go to.
type InitFacts = hostinfo.InitFacts

// Kernel is what runs, and what of it we miss.
type Kernel = hostinfo.Kernel

// Lack is something that the kernel, or a filter in front of it, does not do for us.
type Lack = hostinfo.Lack

// ManagerFacts are about a manager that was asked.
type ManagerFacts = hostinfo.ManagerFacts

// Unit is the one that we are in, and a client in the same place.
type Unit = hostinfo.Unit

// Swept is an orphan that was ended.
type Swept = sweep.Swept

// SweepFilter says which orphans are meant; the zero value means all.
type SweepFilter = sweep.SweepFilter

const (
	// CleanWord calls a process that does Clean.
	CleanWord = protocol.CleanWord
	// AsConfigured as a grace leaves it to the server's policy.
	AsConfigured     = fleet.AsConfigured
	EventStarted     = protocol.EventStarted
	EventEnded       = protocol.EventEnded
	EventKilled      = protocol.EventKilled // members had to be
	EventOutOfMemory = protocol.EventOutOfMemory
	EventPIDsRefused = protocol.EventPIDsRefused
	EventFrozen      = protocol.EventFrozen
	EventThawed      = protocol.EventThawed
	EventSwept       = protocol.EventSwept
	EventNote        = protocol.EventNote
	// EventStopRequested is of who asks for a stop.
	EventStopRequested = protocol.EventStopRequested
	FieldEvent         = protocol.FieldEvent
	FieldID            = protocol.FieldID
	FieldName          = protocol.FieldName
	FieldClient        = protocol.FieldClient
	FieldClientPID     = protocol.FieldClientPID
	FieldClientUnit    = protocol.FieldClientUnit
	FieldBackend       = protocol.FieldBackend
	FieldStderr        = protocol.FieldStderr // of EventStarted
	FieldCause         = protocol.FieldCause  // this one and the next ones of EventEnded
	FieldSignal        = protocol.FieldSignal
	FieldExitStatus    = protocol.FieldExitStatus
	FieldExitSignal    = protocol.FieldExitSignal
	FieldSeconds       = protocol.FieldSeconds
	FieldCPU           = protocol.FieldCPU
	FieldMemoryPeak    = protocol.FieldMemoryPeak
	FieldStuck         = protocol.FieldStuck    // of EventEnded and EventSwept; once for each
	FieldKilled        = protocol.FieldKilled   // of EventKilled; once for each of the first 16
	FieldTotal         = protocol.FieldTotal    // of EventKilled
	FieldOOMKills      = protocol.FieldOOMKills // of EventOutOfMemory, with FieldMemoryPeak
	FieldMemoryMax     = protocol.FieldMemoryMax
	FieldBiggest       = protocol.FieldBiggest // of EventOutOfMemory; once for each
	FieldRefused       = protocol.FieldRefused // of EventPIDsRefused
	FieldPIDsMax       = protocol.FieldPIDsMax
	FieldNote          = protocol.FieldNote // of EventNote
	FieldBy            = protocol.FieldBy   // of EventStopRequested
	// StderrInherit is the client's own.
	StderrInherit = protocol.StderrInherit
	// StderrJournal is a stream of the journal or, where there is none, the client's own.
	StderrJournal = protocol.StderrJournal
	// StderrKept begins the note of a server that was to have the journal's; the reason follows.
	StderrKept = protocol.StderrKept
	// DefaultSlice is where the groups are, unless a user wants another.
	DefaultSlice = protocol.DefaultSlice
	Running      = fleet.Running
	Ending       = fleet.Ending // why is in Cause
	Frozen       = fleet.Frozen
	Orphaned     = fleet.Orphaned
	// Everyone is no uid; it stands for all of them.
	Everyone = hierarchy.Everyone
	// Auto takes the best that the host offers.
	Auto = protocol.Auto
	// SystemdUser and SystemdSystem ask a manager for a scope in mcp.slice.
	SystemdUser   = protocol.SystemdUser
	SystemdSystem = protocol.SystemdSystem
	// Delegated makes groups below our own cgroup, which was delegated to us.
	Delegated = protocol.Delegated
	// Cgroup makes groups in <cgroup2 mount>/mcp.slice/<uid>: root without systemd.
	Cgroup = protocol.Cgroup
	// Tree needs no cgroup: what descends from the supervisor is the group. It is the
	// weakest; docs/understand/containment.md says what can get away from it.
	Tree = protocol.Tree
	// AutoOnClientDeath stops the server where stdin is a pipe or socket, and nobody outside the payload
	// holds the other end: the process that died could be a mere spawner.
	AutoOnClientDeath = protocol.AutoOnClientDeath
	// StopOnClientDeath stops it as well where stdin is a file, a terminal or /dev/null.
	StopOnClientDeath = protocol.StopOnClientDeath
	IgnoreClientDeath = protocol.IgnoreClientDeath
)

var (
	// ErrStuck says that not all of a server has ended.
	ErrStuck = fleet.ErrStuck
	// Backends lists what --backend accepts, after auto the best first.
	Backends = protocol.Backends
)

// Lookup finds what execvp(3) would execute: command itself if it has a slash,
// otherwise the first executable file in the directories of path. A file that may
// not be executed is remembered and the search goes on.
func Lookup(command string, path string) (string, error) { return protocol.Lookup(command, path) }

// Causes are all that there are.
func Causes() []Cause { return protocol.Causes() }

// ParseDuration reads a Go duration that may begin with days: 1d, 1.5d, 1d12h.
func ParseDuration(s string) (time.Duration, error) { return protocol.ParseDuration(s) }

// MessageIDs are what the journal finds events by. They stay the same for ever.
func MessageIDs() map[Event]string { return protocol.MessageIDs() }

// LogIdentifier is what the journal knows the lines of a server's stderr by.
func LogIdentifier(server string, id string) string { return protocol.LogIdentifier(server, id) }

// ParseStderr accepts "inherit" and "journal".
func ParseStderr(s string) (Stderr, error) { return protocol.ParseStderr(s) }

// Ancestry lists a process, its parent, and so on.
func Ancestry(pid int) []Ancestor { return fleet.Ancestry(pid) }

// NewLineage makes an id.
func NewLineage() (Lineage, error) { return launcher.NewLineage() }

// List finds the servers of a user, or of Everyone, the oldest first. It reads the
// kernel alone, so what it says was true a moment ago; a server that ends meanwhile is
// left out. Each has to be closed.
func List(uid int) ([]*Listed, error) { return fleet.List(uid) }

// CheckSlice accepts the name of a slice (systemd.slice(5)).
func CheckSlice(s string) error { return backend.CheckSlice(s) }

// IsGone tells whether an error says that a server has ended since it was listed.
func IsGone(err error) bool { return protocol.IsGone(err) }

// Owner returns whose a server is that has this name, or an id that begins so, and that others
// may not look at.
func Owner(arg string) (uid int, found bool) { return hierarchy.Owner(arg) }

// ParseBackend accepts the names of Backends.
func ParseBackend(s string) (Backend, error) { return protocol.ParseBackend(s) }

// DefaultPolicy ends the whole ladder (2.2 s) before the clients that close stdin
// and then kill lose patience, at 3 s.
func DefaultPolicy() Policy { return protocol.DefaultPolicy() }

// ParseLimit reads a duration above zero; "0" and "infinity" are no limit, which is 0.
func ParseLimit(s string) (time.Duration, error) { return protocol.ParseLimit(s) }

// ParseClientDeath accepts "auto", "stop" and "ignore".
func ParseClientDeath(s string) (ClientDeath, error) { return protocol.ParseClientDeath(s) }

// ParseGrace reads a grace period: a Go duration that is not negative, 0, or
// "infinity".
func ParseGrace(s string) (time.Duration, error) { return protocol.ParseGrace(s) }

// In tells whether a process is in a server's group, and not just where its client is.
func In(pid int, client int) bool { return launcher.In(pid, client) }

// Supervise is the whole life of a supervisor. memory is the descriptor of its
// configuration, pid the main process if that was born first, otherwise 0, foreign are the descriptors above 2 that it
// was started with. It returns the exit status, which nobody reads.
func Supervise(memory, pid int, foreign []int) int { return supervisor.Supervise(memory, pid, foreign) }

// Clean ends the group dir below a directory, given by its descriptor, whose launcher and supervisor have just been killed.
func Clean(parent int, dir string) error { return sweep.Clean(parent, dir) }

// Candidates lists what auto tries for the calling user, the best first.
func Candidates() []Backend { return backend.Candidates() }

// StartsEarly tells whether a server that nobody has asked this backend for by name starts before its manager has the scope.
func StartsEarly(b Backend) bool { return backend.StartsEarly(b) }

// HostInfo reads it all. Managers that do not answer are waited for, both together, for
// a second.
func HostInfo() Host { return hostinfo.Read() }

// FindManager says why no systemd manager can start anything for this user, nil if there is no reason.
func FindManager() error { return backend.FindManager() }

// FindHierarchy says why no group can be made here by anyone, nil if there is no reason.
func FindHierarchy() error { return hostinfo.FindHierarchy() }

// OwnGroup is where we are, and which controllers the group above has for it: inside of
// a server those that its limits could be made of.
func OwnGroup() (at string, controllers []string) { return hostinfo.OwnGroup() }

// NeededLacks are what makes it impossible to run a server here.
func NeededLacks() []Lack { return hostinfo.NeededLacks() }

// OwnUnit is the unit that we are in, without what only its manager knows; nil outside
// of any.
func OwnUnit() *Unit { return hostinfo.OwnUnit() }

// Sweep ends the orphans of the calling user, wherever a backend has put them. A group
// whose supervisor lives, or that is being made, is never touched.
func Sweep(f SweepFilter) ([]Swept, error) { return sweep.Sweep(f) }

// Orphans are those that Sweep would end.
func Orphans(f SweepFilter) ([]Swept, error) { return fleet.Orphans(f) }
