// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package page

import "github.com/mcpscope/mcpscope/internal/server/decide"

// This is what a guard and the watcher of a gateway read from a page, to decide when the server is stopped.
// Nothing here needs a Go runtime.

// ReclaimedWithin is policy.ReclaimedWithin, in nanoseconds.
const ReclaimedWithin = 5e9

// HolderEach is how often an unknown holder of stdin is looked for, in nanoseconds: no event says that it has
// closed that.
const HolderEach = 10e9

// TimesOf are those of a stop.
func TimesOf(p *Page) decide.Times {
	return decide.Times{EOFGrace: p.Order.EOFGrace, TermGrace: p.Order.TermGrace}
}

// FactsOf are those that are on the page. Whoever decides adds what it has to look for.
func FactsOf(p *Page, at int64) decide.Facts {
	happened := &p.ByGuard.Happened
	requested := happened[StopRequested] | happened[IdleTooLong]
	return decide.Facts{
		Now:       at,
		HungUpAt:  decide.Earlier(happened[StdinClosed], happened[StdoutClosed]),
		Requested: requested != 0 || p.ByOthers.Stop,
		Signalled: p.ByLauncher.SignalsGot > 0,
		Repeated:  p.IsRepeated(),
		SlowUntil: slowUntil(p),
	}
}

// slowUntil is until when a server reads its memory back that was reclaimed, or 0.
func slowUntil(p *Page) int64 {
	if !p.ByHelper.Looks.Reclaimed || p.ByGuard.Thaw.At == 0 {
		return 0
	}
	return p.ByGuard.Thaw.At + ReclaimedWithin
}

// IsNewlyIdle reports whether a look has found the server idle for too long, which is no event yet.
func IsNewlyIdle(p *Page) bool { return p.ByHelper.IdleTooLong && p.ByGuard.Happened[IdleTooLong] == 0 }

// SeeksHolder reports whether it has to be found out who can write to stdin: the client is dead, and stdin
// has not hung up.
func SeeksHolder(p *Page) bool {
	phase := p.ByGuard.Stop.State.Phase
	isEndless := phase == decide.Grace && p.Order.EOFGrace < 0
	mayRun := phase == decide.Running || isEndless
	isDead := p.ByGuard.Happened[ClientDied] != 0
	return isDead && mayRun && !IsAbandoned(p)
}

// IsAbandoned reports whether the client is dead, and nobody can write to stdin.
func IsAbandoned(p *Page) bool {
	happened := &p.ByGuard.Happened
	isUnwritable := happened[StdinClosed] != 0 || !p.Started.Side.Conveyed || p.ByHelper.Holder == NoHolder
	return happened[ClientDied] != 0 && isUnwritable
}

// MayKeep reports whether members that a pattern keeps have to be looked for before the others are asked.
func MayKeep(p *Page) bool {
	return p.Order.Keeps && !p.ByHelper.Daemons.MembersKept && !p.ByGuard.Stop.NoDaemon
}

// MayFindUse reports whether members that others use have to be looked for: if the end is reported.
func MayFindUse(p *Page) bool {
	isReported := p.Order.PlainEnd != LauncherEnds
	return isReported && !p.ByHelper.Daemons.UseFound && !p.ByGuard.Stop.NoDaemon
}

// SetCause records why the server is ended, once, and reports whether it has.
func SetCause(p *Page) (isFirst bool) {
	stop := &p.ByGuard.Stop
	if stop.Cause != 0 {
		return false
	}
	stop.Cause = p.FirstCause()
	return true
}
