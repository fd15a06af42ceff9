// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// An End is a way in which a server's life is asked, or made, to be over.
type End struct {
	Name string
	Do   func(*Cell)
	// Begin takes the place of Do for an end that needs a client of its own kind: it
	// starts one with the server's command, and returns what ends it.
	Begin func(c *Cell, command []string) (*Client, func())
	// Who is not there any more to report or to be waited for.
	KillsLauncher, KillsClient, KillsGuard, KillsGroup bool
}

func (e End) name() string { return e.Name }

// Ends are those that any host has.
func Ends() []End {
	return []End{
		{Name: "stdin", Do: told("close")},
		{Name: "TERM", Do: told("signal 15")},
		{Name: "INT", Do: told("signal 2")},
		{Name: "HUP", Do: told("signal 1")},
		{Name: "kill", KillsLauncher: true, Do: func(c *Cell) { c.Client.Server.Signal(unix.SIGKILL) }},
		{Name: "killpg", KillsLauncher: true, Do: told("killpg 9")},
		{Name: "tree", KillsLauncher: true, KillsClient: true, Do: func(c *Cell) { killTree(c.Client.Own) }},
		{Name: "client", KillsClient: true, Do: func(c *Cell) { c.Client.Own.Signal(unix.SIGKILL) }},
		{Name: "guard", KillsGuard: true, Do: killGuard},
		{Name: "exit", KillsClient: true, Do: told("exit")},
		{Name: "cgroup", KillsLauncher: true, KillsClient: true, KillsGroup: true, Do: killClientGroup},
	}
}

func told(command string) func(*Cell) {
	return func(c *Cell) { c.Client.Tell("%s", command) }
}

// killGuard finds nobody in the mode that does it itself.
func killGuard(c *Cell) {
	if c.guard != nil {
		c.guard.Signal(unix.SIGKILL)
	}
}

// killClientGroup is what a unit's stop comes to in the end: everything in the client's
// group and below gets a SIGKILL at once.
func killClientGroup(c *Cell) {
	c.T.Helper()
	if err := bed.Kill(c.own, Patience); err != nil {
		c.T.Error(err)
	}
}
