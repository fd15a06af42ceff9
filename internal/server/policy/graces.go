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

// longestGrace is what an infinite grace is where a number is needed: nobody waits for its end.
const longestGrace = 365 * 24 * time.Hour

// FiniteGrace returns a grace for what takes no infinite one: the program of a container engine, or a sum.
func FiniteGrace(d time.Duration) time.Duration {
	if d < 0 {
		return longestGrace
	}
	return d
}

// GraceText is the inverse of cli.ParseGrace.
func GraceText(d time.Duration) string {
	if d < 0 {
		return "infinity"
	}
	return d.String()
}
