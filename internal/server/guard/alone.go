// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import "github.com/mcpscope/mcpscope/internal/server/page"

// lastResort ends a server whose guard can't be replaced: EOF grace, SIGTERM, term grace, SIGKILL. That makes
// room for a guard, which reports the end.
type lastResort struct {
	since       int64 // when the present grace has begun, or 0
	inTermGrace bool
}

// clientEnds are facts about the client, as the launcher has seen them.
type clientEnds struct {
	hungUp bool // it has closed stdin or stdout
	isDead bool
}

// aloneStep is the next step.
type aloneStep uint32

const (
	waitAlone aloneStep = iota
	thawAlone           // an idle server is frozen
	terminateAlone
	killAlone
)

// next returns the step for this moment, and is called again and again.
func (r *lastResort) next(on *page.Page, client clientEnds, at int64) aloneStep {
	signalled := on.ByLauncher.SignalsGot > 0 // which the main process has got
	hasToEnd := client.isDead || on.ByLauncher.EndLeft != page.NotLeft
	switch {
	case !client.hungUp && !signalled && !hasToEnd:
		return waitAlone
	case r.since == 0:
		r.since = at
		return thawAlone
	case !r.inTermGrace && signalled:
		r.beginTermGrace(at)
	case !r.inTermGrace && (hasToEnd || isOver(r.since, on.Order.EOFGrace, at)):
		r.beginTermGrace(at)
		return terminateAlone
	case r.inTermGrace && (on.IsRepeated() || isOver(r.since, on.Order.TermGrace, at)):
		return killAlone
	}
	return waitAlone
}

func (r *lastResort) beginTermGrace(at int64) {
	r.since = at
	r.inTermGrace = true
}

// isOver reports whether a grace has passed. A negative one does not.
func isOver(since, grace, at int64) bool { return grace >= 0 && at >= since+grace }
