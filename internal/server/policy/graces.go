// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// The graces of Default end the whole ladder (2.2 s) before the clients that close stdin and then kill lose
// patience, at 3 s.
const (
	DefaultEOFGrace  = 1200 * time.Millisecond
	DefaultTermGrace = time.Second
	// TerminalTermGrace is the term grace of a program on a terminal: an agent saves its session when
	// that closes, which took one 4.3 s.
	TerminalTermGrace = 10 * time.Second
)

// GraceText is the inverse of cli.ParseGrace.
func GraceText(d time.Duration) string {
	if d < 0 {
		return "infinity"
	}
	return d.String()
}
