// SPDX-License-Identifier: Apache-2.0

// Package launcher starts a server as a child of this process, with a guard beside it, or takes one over that
// its client has started. The watcher of a gateway is the helper of those.
package launcher

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/admission"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Server is one server to be run in a group of its own.
type Server struct {
	Name       string
	Main       MainProcess // of a server that Run starts
	Env        []string    // the client's, without our own variables
	Settings   []string    // those, for main where a plan fails
	Policy     policy.Policy
	Limits     cgroup.Limits
	MinFree    uint64 // bytes of memory that have to be free at the start, or 0
	Replace    bool   // retire older servers of this name, or recipe, and client process
	Keep       policy.Keep
	Executable string // mcpscope itself, for later helpers
	ClientName string // where its process has another one
	Origin     protocol.Origin
	Places     Places
	Output     Output
	Gateway    OfGateway
}

// Places are those that a server may get.
type Places struct {
	Backend names.Backend
	Require bool    // refuse the backend tree, which is weaker than all others
	Tried   []error // of the places that Run has tried before: see Tried
}

// Output is what people and programs get to read of a server.
type Output struct {
	Messages Messages
	Notes    []string        // the caller's own, for the report
	Report   int             // a descriptor, or -1
	Stderr   protocol.Stderr // one that is taken has its own: see TakenServer.SetStderr
}

// OfGateway is what only a server of a gateway has.
type OfGateway struct {
	Recipe uint64 // see protocol.Facts
	Guard  int    // pid of that of the gateway, or 0
	// Client is the client where it is not our parent; otherwise the zero value.
	Client protocol.Identity
	// Beside is the process in whose cgroup the place of a group is looked for; 0 for the calling one.
	Beside int
	// LimitsMayFail: below a gateway the server runs without a limit that fails. Its watcher reports that.
	LimitsMayFail bool
	// Unproven is for a program that a gateway has started and that only its name says to be a server. It
	// gets a group, but no limits, and nothing stops it, before TakenServer.Prove.
	Unproven bool
	Hub      *loop.Hub // of a gateway's servers, or nil
}

// MainProcess is the main process as Run starts it.
type MainProcess struct {
	Path    string   // the file to execute, from Lookup
	Argv    []string // as the client gave it
	At      int      // where it, or what a plan that failed has made of it, begins in our own arguments
	NoFile  unix.Rlimit
	Signals guard.ClientSignals
}

// Messages selects the lines that people get to read, beside the report.
type Messages struct {
	Verbose bool // asks for notes on members that had to be killed
	Quiet   bool // print nothing, not even failures
	// Weaker, if not nil, is called when the server gets the backend tree because a better one that this
	// host has does not work.
	Weaker func(error)
	// Waits, if not nil, is called when the start has to wait for free memory.
	Waits func(admission.Free)
}
