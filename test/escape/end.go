// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// End is one way to stop a server, by a request or by force.
type End struct {
	Name string
	Do   func(*Cell)
	// Begin replaces Do if the end needs a special client. It starts that client with the
	// server's command, and returns the function that carries out the end.
	Begin func(c *Cell, command []string) (*Client, func())
	// The processes that this end kills. They can neither report nor be waited for.
	KillsLauncher, KillsClient, KillsGuard, KillsGroup bool
	AsksLauncher                                       bool // by a signal
}

func (e End) name() string { return e.Name }

// Ends returns the ends that any host has.
func Ends() []End {
	return []End{
		{Name: "stdin", Do: told("close")},
		{Name: "TERM", AsksLauncher: true, Do: told("signal 15")},
		{Name: "INT", AsksLauncher: true, Do: told("signal 2")},
		{Name: "QUIT", AsksLauncher: true, Do: told("signal 3")},
		{Name: "kill", KillsLauncher: true, Do: func(c *Cell) { c.Client.Server.Signal(unix.SIGKILL) }},
		{Name: "killpg", KillsLauncher: true, Do: told("killpg 9")},
		{Name: "tree", KillsLauncher: true, KillsClient: true, Do: func(c *Cell) { KillTree(c.Client.Own) }},
		{Name: "client", KillsClient: true, Do: func(c *Cell) { c.Client.Own.Signal(unix.SIGKILL) }},
		{Name: "guard", KillsGuard: true, Do: killGuard},
		{Name: "exit", KillsClient: true, Do: told("exit")},
		{Name: "cgroup", KillsLauncher: true, KillsClient: true, KillsGroup: true, Do: killClientGroup},
	}
}

func told(command string) func(*Cell) {
	return func(c *Cell) { c.Client.Tell("%s", command) }
}

// killGuard kills the guard, which changes nothing: the launcher forks another one. Then the client ends. A
// launcher that a member has killed or stopped forks none.
func killGuard(c *Cell) {
	if c.guard != nil {
		c.guard.Signal(unix.SIGKILL)
		c.guard.Ended(Patience)
	}
	if c.guard != nil && !c.mode.KeepsStopping && !c.mode.PullsParent {
		c.find()
	}
	c.Client.Tell("close")
}

// killClientGroup does the last step of a unit's stop: all processes in the client's group
// and below get SIGKILL at once.
func killClientGroup(c *Cell) {
	c.T.Helper()
	if err := bed.Kill(c.own, Patience); err != nil {
		c.T.Error(err)
	}
}
