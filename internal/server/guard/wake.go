// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package guard has the processes that are beside a server without a Go runtime: the guard, and the main
// process until its exec. The launcher's own loop is here as well.
//
//	client ── launcher ── main process, in the payload, and orphans of the server
//	            │ page and socket
//	          guard, in guards/, outside every process tree of the client
//	            └─▶ helper, a Go process, for what raw code can't do
//
// The launcher is the parent of the main process and a subreaper. The guard watches the client's side, and
// outlives the launcher. It decides when the server is stopped (package decide), and stops it. Everything
// here is system calls alone: no heap, no Go runtime, and in the guard no writable global variable. A build
// with -race can't run servers: the guard has no race detector.
package guard

import "github.com/mcpscope/mcpscope/internal/server/page"

// happened writes the time of an event to the page.
func (g *serverGuard) happened(event int) {
	g.page.ByGuard.Happened[event&(page.EventsRoom-1)] = now()
	g.wake()
}

// wake thaws members that are frozen since they are idle: they have to react to an event.
func (g *serverGuard) wake() {
	if !g.page.ByHelper.Frozen {
		return
	}
	g.thawIdle()
	g.page.ByGuard.Thaw.IsNew = true
	g.page.ByGuard.Thaw.At = now()
	g.helper.announce()
}

// thawIdle undoes what a helper may have frozen.
func (g *serverGuard) thawIdle() {
	g.page.ByHelper.Frozen = false
	g.stop.members.thawIdle()
}
