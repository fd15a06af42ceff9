//go:build linux

package scope

import (
	"fmt"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
)

// Policy says how patiently a server is ended.
type Policy struct {
	// EOFGrace runs from the moment the client has closed stdin (and the server has
	// read what was in it) to the stop. freeze.Forever waits for the server.
	EOFGrace time.Duration
	// TermGrace runs from the asking signal to the kill.
	TermGrace time.Duration
	// OnClientDeath says what the client's death means.
	OnClientDeath ClientDeath
}

// DefaultPolicy ends the whole ladder (2.2 s) before the clients that close stdin
// and then kill lose patience, at 3 s.
func DefaultPolicy() Policy {
	return Policy{EOFGrace: 1200 * time.Millisecond, TermGrace: time.Second, OnClientDeath: StopOnClientDeath}
}

// ClientDeath is what to do when the client has died.
type ClientDeath string

const (
	StopOnClientDeath ClientDeath = "stop"
	IgnoreClientDeath ClientDeath = "ignore"
)

// Bounds that are nobody's to set.
const (
	unreadWait           = 10 * time.Second       // how long unread input may delay the EOF grace
	unreadEvery          = 50 * time.Millisecond  // see course.drain
	idleWindow           = 10 * time.Second       // without a client, with stdin held open by another
	idleCPU              = 20 * time.Millisecond  // less than this in a window is no work
	answerWithin         = 100 * time.Millisecond // for the peer, before it counts as stopped
	answerSlow           = 10                     // times that, for a peer that is not stopped but slow
	killDue              = time.Second            // between questions to a supervisor that kills
	reportWithin         = 10 * time.Second       // for the supervisor's last word after we have killed all
	wakeWithin           = 5 * time.Second        // for a supervisor that a sweeper has continued
	nestedWithin         = 3 * time.Second        // beyond its term grace, for a nested supervisor
	newbornAge           = 10 * time.Second       // before an unarmed group may be removed
	supervisorGoneWithin = 2 * time.Second        // between its last word and its exit
)

// ParseClientDeath accepts "stop" and "ignore".
func ParseClientDeath(s string) (ClientDeath, error) {
	switch d := ClientDeath(s); d {
	case StopOnClientDeath, IgnoreClientDeath:
		return d, nil
	}
	return "", fmt.Errorf("%q is neither stop nor ignore", s)
}

// ParseGrace reads a grace period: a Go duration that is not negative, 0, or
// "infinity".
func ParseGrace(s string) (time.Duration, error) {
	switch s {
	case "infinity":
		return freeze.Forever, nil
	case "0":
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration (like 1.2s, 500ms, 0 or infinity)", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}
