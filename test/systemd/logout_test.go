// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A user who does not linger has a manager as long as a session, with the servers in it.
func TestLogoutOfAUserWithoutLingering(t *testing.T) {
	h, u := host.Current(t), host.NoLinger
	for name, end := range map[string]func(*contained, *host.Session) error{
		"hang-up": func(c *contained, s *host.Session) error {
			err := s.Logout()
			c.lives() // no signal has reached it yet
			c.client.Own.Signal(unix.SIGHUP)
			return err
		},
		"session": func(_ *contained, s *host.Session) error { return s.Terminate() },
		"user": func(*contained, *host.Session) error {
			return h.Command(host.Root, "loginctl", "terminate-user", u.Name).Run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, m := h.Login(t, u), escape.NewMembers(t)
			cmd := s.Command(append([]string{programs.Client, "--group", "--"}, zoo(u, "guest", m, "stopped")...)...)
			c := awaitServer(t, escape.StartClient(t, cmd, cmd.Start), m, u.Slice())
			if err := end(c, s); err != nil {
				t.Fatal(err)
			}
			c.wantGone(name)
			manager := strings.TrimSuffix(u.Slice(), "/mcp.slice")
			if err := escape.AwaitRemoval(manager, patience); err != nil {
				t.Errorf("the user's manager: %v", err)
			}
		})
	}
}
