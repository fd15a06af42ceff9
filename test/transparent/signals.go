// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

var (
	ending = []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
	others = []unix.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT}
)

// Signals: each signal reaches the server once, however the client sends it: an ending one
// each member, with SIGCONT for those that are stopped, and any other the main process. While
// the ladder runs no other signal asks a member again.
func Signals(t *testing.T, s Subject) {
	for _, way := range []struct{ name, option, command string }{
		{"pid", "--group", "signal"}, {"group", "--group", "killpg"}, {"session", "--session", "killpg"},
	} {
		for _, sig := range slices.Concat(ending, others) {
			if way.name != "pid" && !slices.Contains(ending, sig) && !escape.Full() {
				continue
			}
			t.Run(way.name+"/"+unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				site, crew := s.Site(t), newCrew(t)
				line := s.contained("--term-grace", "infinity").line(crew.line(s)...)
				c := site.NewClient(site.Unique("client"), []string{way.option}, line)
				crew.up(func() string { return escape.Contents(c.Stderr) })
				c.Tell("%s %d", way.command, sig)
				last, want := sig, each(sig, unix.SIGCONT)
				if !slices.Contains(ending, sig) {
					crew.want(only([]unix.Signal{sig}, "main"))
					last, want = unix.SIGTERM, each(unix.SIGTERM, unix.SIGCONT)
					want["main"] = append(want["main"], sig)
					c.Tell("%s %d", way.command, last)
				}
				crew.want(want)
				for _, other := range ending {
					if other != last {
						c.Tell("%s %d", way.command, other)
					}
				}
				crew.want(want)
				c.Tell("%s %d", way.command, last) // the same again: now
				if status := c.Status(escape.Patience); status != "signal 9" {
					t.Errorf("ended with %q", status)
				}
			})
		}
	}
}
