// SPDX-License-Identifier: Apache-2.0

// Package policy has the times of a stop, and the bounds that have no setting.
package policy

import (
	"fmt"
	"time"
)

// Policy has the times of a stop, and its reasons.
type Policy struct {
	// EOFGrace runs from the moment the client has closed stdin (and the server has
	// read what was in it) to the stop. freeze.Forever waits for the server.
	EOFGrace      time.Duration
	TermGrace     time.Duration // from the asking signal to the kill
	OnClientDeath ClientDeath
	// IdleTimeout is how long a server may use no CPU (20 ms), read no message, have no call without an
	// answer and nothing unread on stdin before it is stopped: between once and twice that; 0 is no limit.
	IdleTimeout time.Duration
	IdleFreeze  time.Duration // how long a server does nothing before it is frozen; 0 is never
}

// Keep says which daemons of a server outlive it.
type Keep struct {
	Patterns []string      // of their programs: see internal/glob
	For      time.Duration // how long, at most; 0 is no limit
}

// Default is the policy without settings.
func Default() Policy {
	return Policy{EOFGrace: DefaultEOFGrace, TermGrace: DefaultTermGrace, OnClientDeath: AutoOnClientDeath}
}

// String returns the policy as a text for people.
func (p Policy) String() string {
	text := fmt.Sprintf("eof-grace=%s term-grace=%s on-client-death=%s",
		GraceText(p.EOFGrace), GraceText(p.TermGrace), p.OnClientDeath)
	if p.IdleTimeout > 0 {
		text += " idle-timeout=" + p.IdleTimeout.String()
	}
	if p.IdleFreeze > 0 {
		text += " idle-freeze=" + p.IdleFreeze.String()
	}
	return text
}

// ClientDeath is the reaction to the client's death.
type ClientDeath string

const (
	// AutoOnClientDeath stops the server if stdin is a pipe or socket whose other end is held by no process
	// outside the payload: the dead process could have been a mere spawner.
	AutoOnClientDeath ClientDeath = "auto"
	// StopOnClientDeath stops it as well where stdin is a file, a terminal or /dev/null.
	StopOnClientDeath ClientDeath = "stop"
	IgnoreClientDeath ClientDeath = "ignore"
)
