// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
)

// The directions in which a message can go; they take a role's place in a point.
const (
	toManager   role = "to the manager:"
	fromManager role = "from the manager:"
)

// act is what a bus does with a message beside passing it on.
type act string

const (
	hangUp act = "hang up"
	refuse act = "refuse"
	delay  act = "delay"
	// stall lets nothing more pass in this direction.
	stall act = "stall"
	// bury ends all who are in the group before the message goes on. It is for one message alone.
	bury act = "bury"
)

// delayed is longer than mcpscope waits for the first words of a manager that is not the only candidate.
const delayed = 1500 * time.Millisecond

// acts are those that a point can be tried with.
func (v visit) acts() []act {
	if !isMessage(v) {
		return nil
	}
	all := []act{hangUp, delay}
	if !strings.HasPrefix(v.call, "signal") && v.call != "error" {
		all = append(all, refuse)
	}
	// It takes as long as mcpscope waits for a scope, and is the same in the other direction: no answer.
	if escape.Full() && v.role == toManager {
		all = append(all, stall)
	}
	return all
}
