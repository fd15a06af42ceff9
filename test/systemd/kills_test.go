// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"os/exec"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/kills"
)

// TestKillTable holds the promise for kills at random moments, where a manager takes the groups over.
func TestKillTable(t *testing.T) {
	t.Parallel()
	managers.RLock()
	t.Cleanup(managers.RUnlock) // the tables go on after this function
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		y := newYard(t, u)
		table := kills.Table{Name: u.Name, Backend: y.backend("auto")}
		killTable(t, &table)
	})
	t.Run("session", func(t *testing.T) {
		t.Parallel()
		y := newYard(t, host.Tester)
		b := y.backend("auto")
		b.Site = y.session
		table := kills.Table{
			Name:    "session",
			Backend: b,
			Clients: func(s *escape.Site) string { return s.Dir },
		}
		killTable(t, &table)
	})
}

func killTable(t *testing.T, table *kills.Table) {
	table.Program = mcpscope
	table.Lanes = 3
	table.Kills = 12
	table.SweepCleans = true
	table.Run(t)
}

// session is a site in a login session of its own.
func (y *yard) session(t *testing.T) *escape.Site {
	t.Helper()
	s := y.host.Login(t, y.user)
	site := &escape.Site{T: t, Programs: programs, Dir: s.Group, View: s.Group, UID: y.user.UID}
	site.Command = func(args ...string) *exec.Cmd {
		cmd := s.Command(args...)
		cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
		return cmd
	}
	return site
}
