// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// endSlack is for all of a server's end but its term grace.
const endSlack = 5 * time.Second

// follow stays with a server until it has gone. It ends what brain and guard leave that are killed, and after
// the gateway also what one has not ended that was stopped, once more perhaps.
func (w *watcher) follow(t *launcher.Taken, grace time.Duration) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		awaitHangUp(t.FD())
	}()
	select {
	case <-gone:
	case <-w.ended:
		t.Wake()
		var patience <-chan time.Time
		if grace >= 0 {
			patience = time.After(grace + endSlack)
		}
		select {
		case <-gone:
		case <-patience:
			t.Kill()
			<-gone
		}
	}
	_ = t.Over() // it says that both were killed
}

// awaitFollowers: with the last process that has the filter a server may have ended whose group is still to
// be removed.
func (w *watcher) awaitFollowers() {
	done := make(chan struct{})
	go func() {
		w.followed.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * endSlack): // a brain that is stopped has nothing left to end
	}
}
