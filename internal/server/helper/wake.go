// SPDX-License-Identifier: Apache-2.0

package helper

import "time"

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
