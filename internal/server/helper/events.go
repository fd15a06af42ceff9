// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

func (w *Watched) handle(t loop.Token) {
	switch t {
	case loop.TokenSignals:
		w.Loop.Signals()
	case loop.TokenStdin:
		w.happened(page.StdinClosed)
	case loop.TokenStdout:
		w.happened(page.StdoutClosed)
	case loop.TokenClient:
		reaction := w.Server.Config.Facts.Policy.OnClientDeath
		if reaction != policy.IgnoreClientDeath { // also of one without pipes
			w.happened(page.ClientDied)
		}
	case loop.TokenInput:
		w.wake(true)
	case loop.TokenMain:
		w.mainExited()
	case loop.TokenEvents:
		w.handleGroupEvent()
	case loop.TokenMemory: // a manager removes the group of a server that was killed
		w.stop.ending.record.measure()
	case loop.TokenAdopted:
		w.Server.Group.Park()
	}
}

// handleGroupEvent handles a change of cgroup.events: the group may be empty, or a stop be requested.
func (w *Watched) handleGroupEvent() {
	var text [256]byte
	_, _ = unix.Pread(w.Events, text[:], 0) // the kernel reports no further event before the file is read
	w.Loop.Again(w.Events, loop.TokenEvents)
	w.lookForRequest()
}

// lookForRequest is the other side of Attributes.AskToStop, and of a request on the page.
func (w *Watched) lookForRequest() {
	s := w.Server
	if s.Page.ByGuard.Stop.Cause != 0 {
		return
	}
	if s.Page.ByOthers.Stop || s.Group.Attributes().Cause() == causes.StopRequested {
		w.happened(page.StopRequested)
	}
}

// happened writes the time of an event to the page, and wakes an idle server, which has to react.
func (w *Watched) happened(event int) {
	at := &w.Server.Page.ByGuard.Happened[event]
	if *at == 0 {
		*at = clock()
	}
	w.wake(false)
}

// wake thaws members that are frozen since they are idle: they have to react to an event.
func (w *Watched) wake(hasInput bool) {
	p := w.Server.Page
	if !p.ByHelper.Frozen {
		return
	}
	p.ByHelper.Frozen = false
	p.ByGuard.Thaw.At = clock()
	if w.looks.sleeper != nil {
		w.looks.sleeper.Wake(time.Now(), hasInput)
	}
}
