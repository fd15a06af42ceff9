// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// clientEnds are facts about the client, as the launcher has seen them.
type clientEnds struct {
	hungUpAt int64 // when it has closed stdin or stdout, or 0
	isDead   bool
}

// factsAlone are those of a launcher whose guard can't be replaced. It sees by itself when nothing is left.
func factsAlone(on *page.Page, client clientEnds, at int64) decide.Facts {
	return decide.Facts{
		Now:       at,
		HungUpAt:  client.hungUpAt,
		Abandoned: client.isDead,
		MainEnded: on.ByLauncher.EndLeft != page.NotLeft,
		Signalled: on.ByLauncher.SignalsGot > 0,
		Repeated:  on.IsRepeated(),
	}
}

// endAlone ends the server without a guard. That makes room for one, which reports the end.
func (l *Launcher) endAlone() {
	order := &l.page.Order
	times := decide.Times{EOFGrace: order.EOFGrace, TermGrace: order.TermGrace}
	for {
		facts := factsAlone(l.page, l.client, now())
		switch decide.Step(&l.alone, &facts, &times) {
		case decide.Thaw:
			l.group.thawAlone() // an idle server is frozen
		case decide.Ask:
			l.askAlone()
		case decide.Kill:
			l.group.kill()
			l.children.killAll()
			l.reap()
		default:
			return
		}
	}
}

// signalOfStop is the client's signal, which the main process has got, or SIGTERM.
func signalOfStop(on *page.Page) (sig unix.Signal, isClients bool) {
	if launcher := &on.ByLauncher; launcher.SignalsGot > 0 {
		return unix.Signal(launcher.Signals[0].Number), true
	}
	return unix.SIGTERM, false
}

// askAlone sends the signal of the stop to all members but a main process that has got the client's.
func (l *Launcher) askAlone() {
	l.group.thawAlone()
	sig, isClients := signalOfStop(l.page)
	search := tagSearch{tag: l.keeper.lasting.tag(), procs: l.group.payload, main: l.children.main}
	search.ask(sig, isClients)
}
