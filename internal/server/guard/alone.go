// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import "github.com/mcpscope/mcpscope/internal/server/page"

// lastResort ends a server whose guard can't be replaced: EOF grace, SIGTERM, term grace, SIGKILL. That makes
// room for a guard, which reports the end.
type lastResort struct {
	since int64 // when the present grace has begun, or 0
	asked bool  // it is the term grace
}

// aloneStep is the next step.
type aloneStep uint32

const (
	waitAlone aloneStep = iota
	thawAlone           // an idle server is frozen
	terminateAlone
	killAlone
)

// next returns the step for this moment, and is called again and again. hungUp: the client has closed stdin
// or stdout, or is dead.
func (r *lastResort) next(on *page.Page, hungUp bool, at int64) aloneStep {
	signalled := on.ByLauncher.SignalsGot > 0 // which the main process has got
	switch {
	case !hungUp && !signalled && !on.ByLauncher.BrainEnds:
		return waitAlone
	case r.since == 0:
		r.since = at
		r.asked = signalled || on.ByLauncher.BrainEnds
		return thawAlone
	case !r.asked && signalled:
		r.since = at
		r.asked = true
	case !r.asked && isOver(r.since, on.Order.EOFGrace, at):
		r.since = at
		r.asked = true
		return terminateAlone
	case r.asked && (on.IsRepeated() || isOver(r.since, on.Order.TermGrace, at)):
		return killAlone
	}
	return waitAlone
}

// isOver reports whether a grace has passed. A negative one does not.
func isOver(since, grace, at int64) bool { return grace >= 0 && at >= since+grace }
