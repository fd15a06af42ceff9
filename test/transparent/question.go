// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"strings"
	"testing"
)

// Question: a server below a client in the foreground of a terminal, with pipes or files as its stdin and stdout, asks a
// person on /dev/tty, as ssh, sudo and git do. A key that interrupts reaches it once.
func Question(t *testing.T, s Subject) {
	const client = `trap : INT; "$@" </dev/null >/dev/null`
	const server = `trap 'n=$((n+1)); echo "int $n." >/dev/tty' INT
		printf 'color? ' >/dev/tty; read x </dev/tty; echo "got $x." >/dev/tty; while :; do sleep 0.1; done`
	for _, w := range []way{bare, s.contained("--term-grace", "infinity")} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			site := s.Site(t)
			term := startTerminal(t, site, append([]string{"sh", "-c", client, "sh"}, w.line("sh", "-c", server)...))
			term.Expect("color? ")
			term.Type("blue\n")
			term.Expect("got blue.")
			for _, times := range []string{"int 1.", "int 2.", "int 3."} {
				term.Type("\x03")
				term.Expect(times)
			}
			if text := term.All(); strings.Contains(text, "int 4.") {
				t.Errorf("a key has interrupted more than once: %q", text)
			}
		})
	}
}
