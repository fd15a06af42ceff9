// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/host"
)

// A frozen server can be ended, no matter what has frozen it. systemd 257 refuses to stop a unit that it
// has frozen itself, 252 thaws it: so it is asked for nothing.
func TestEndOfAFrozenScope(t *testing.T) {
	h := host.Current(t)
	for _, c := range []struct {
		name      string
		bySystemd bool
		end       func(*testing.T, host.User, *contained)
	}{
		{"by mcpscope, unit stopped", false, func(t *testing.T, u host.User, c *contained) {
			host.Must(t, h.Manage(u, "systemctl", "stop", c.unit()))
		}},
		{"by systemd, stdin closed", true, func(_ *testing.T, _ host.User, c *contained) { c.client.Tell("close") }},
		{"by systemd, stopped", true, func(t *testing.T, u host.User, _ *contained) {
			host.Must(t, h.Command(u, mcpscope, "stop", "frozen"))
		}},
		{"by systemd, launcher killed and swept", true, func(t *testing.T, u host.User, c *contained) {
			c.client.Server.Signal(unix.SIGKILL)
			if !c.client.Server.Ended(patience) {
				t.Error("the launcher outlived SIGKILL")
			}
			host.Must(t, h.Command(u, mcpscope, "sweep"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host.BothAtOnce(t, func(t *testing.T, u host.User) {
				s := launch(t, u, "frozen", "ignore-both")
				if c.bySystemd {
					host.Must(t, h.Manage(u, "systemctl", "freeze", s.unit()))
				} else {
					host.Must(t, h.Command(u, mcpscope, "freeze", "frozen"))
				}
				c.end(t, u, s)
				s.wantGone(c.name)
			})
		})
	}
}
