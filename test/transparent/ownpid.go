// SPDX-License-Identifier: Apache-2.0

package transparent

import "testing"

// OwnPID: a server finds its own pid in the variables by which systemd says whose sockets and watchdog they are
// (sd_listen_fds(3), sd_watchdog_enabled(3)), and another one's as it is.
func OwnPID(t *testing.T, s Subject) {
	const client = `LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$@"`
	const server = `test $LISTEN_PID = $$ && test $WATCHDOG_PID = $$ && echo own; echo $LISTEN_FDS`
	for _, w := range []way{bare, s.contained()} {
		site := s.Site(t)
		line := append([]string{"env", "LISTEN_FDS=1", "sh", "-c", client, "sh"}, w.line("sh", "-c", server)...)
		got := run(site, site.Unique("client"), line)
		if got.Stdout != "own\n1\n" {
			t.Errorf("%s: %q", w.name, got.Stdout)
		}
		line = append([]string{"env", "LISTEN_PID=1", "WATCHDOG_PID=12"}, w.line("sh", "-c", "echo $LISTEN_PID $WATCHDOG_PID")...)
		if got := run(site, site.Unique("client"), line); got.Stdout != "1 12\n" {
			t.Errorf("%s, of others: %q", w.name, got.Stdout)
		}
	}
}
