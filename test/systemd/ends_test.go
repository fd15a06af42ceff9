// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// ends are those of any host, and the ways in which a manager ends a server or its client. With its unit the launcher gets
// SIGTERM: while a member traces it, a sweep by the start of another server kills it.
func (y *yard) ends() []escape.End {
	all := append(escape.Ends(),
		escape.End{Name: "scope", Do: y.stopScope},
		escape.End{Name: "unit-stop", KillsClient: true, AsksLauncher: true, Begin: y.inUnit((*clientUnit).stop)},
		escape.End{Name: "unit-restart", KillsClient: true, AsksLauncher: true, Begin: y.inUnit((*clientUnit).restart)},
		escape.End{Name: "unit-crash", KillsClient: true, AsksLauncher: true, Begin: y.inUnit((*clientUnit).crash)},
		escape.End{Name: "reexec", Do: y.reexecute},
	)
	if y.user.UID != 0 {
		all = append(all,
			escape.End{Name: "logout", KillsClient: true, Begin: y.inSession(hangUp)},
			escape.End{Name: "terminate", KillsClient: true, AsksLauncher: true, Begin: y.inSession(terminate)},
		)
	}
	return all
}

// stopScope finds no scope in the mode that kills its guard.
func (y *yard) stopScope(c *escape.Cell) {
	c.T.Helper()
	switch {
	case c.MayHaveNoScope():
		c.Client.Tell("close")
	case c.Group != "":
		if err := escape.AwaitScope(c.Group, patience); err != nil {
			c.T.Error(err)
		}
		control(c.T, y.user, "stop", filepath.Base(c.Group))
	}
}

// reexecute has the manager execute itself again, with its scopes read from its saved state,
// and then ends the server in the usual way.
func (y *yard) reexecute(c *escape.Cell) {
	c.T.Helper()
	scope := c.Group != "" && !c.MayHaveNoScope()
	if scope {
		if err := escape.AwaitScope(c.Group, patience); err != nil {
			c.T.Error(err)
		}
	}
	managers.RUnlock() // which every cell has
	managers.Lock()
	defer func() {
		managers.Unlock()
		managers.RLock()
	}()
	control(c.T, y.user, "daemon-reexec")
	control(c.T, y.user, "is-active", "--quiet", "basic.target") // it answers again
	if scope && !c.MayBeSwept() {
		control(c.T, y.user, "is-active", "--quiet", filepath.Base(c.Group))
	}
	c.Client.Tell("close")
}

// inSession starts the client in a login session, to be ended by end.
func (y *yard) inSession(end func(*escape.Cell, *host.Session)) func(*escape.Cell, []string) (*escape.Client, func()) {
	return func(c *escape.Cell, command []string) (*escape.Client, func()) {
		c.T.Helper()
		s := y.host.Login(c.T, y.user)
		cmd := s.Command(c.Site.ClientLine([]string{"--group"}, command)...)
		return escape.StartClient(c.T, cmd, cmd.Start), func() { end(c, s) }
	}
}

// hangUp is the end of a terminal's session: the leader ends, and the kernel sends SIGHUP to
// the foreground process group.
func hangUp(c *escape.Cell, s *host.Session) {
	c.T.Helper()
	if err := s.Logout(); err != nil {
		c.T.Error(err)
	}
	c.Client.Own.Signal(unix.SIGHUP)
}

func terminate(c *escape.Cell, s *host.Session) {
	c.T.Helper()
	if err := s.Terminate(); err != nil {
		c.T.Error(err)
	}
}
