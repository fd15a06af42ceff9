// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// endSlack is for all of a server's end but its term grace.
const endSlack = 5 * time.Second

// follow stays with a server until it has gone. It ends what a supervisor leaves that is killed,
// and after the gateway also what one has not ended that was stopped.
func (w *watcher) follow(t *launcher.Taken) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		awaitHangUp(t.FD())
	}()
	select {
	case <-gone:
	case <-w.ended:
		t.Wake()
		select {
		case <-gone:
		case <-w.patience():
			t.Kill()
			<-gone
		}
	}
	_ = t.Over() // it says that the supervisor was killed
}

// awaitFollowers: with the last process that has the filter a server may have ended whose group
// is still to be removed.
func (w *watcher) awaitFollowers() {
	done := make(chan struct{})
	go func() {
		w.followed.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * endSlack): // a supervisor that is stopped has nothing left to end
	}
}

// patience is for a supervisor that may have been stopped once more.
func (w *watcher) patience() <-chan time.Time {
	if w.Policy.TermGrace < 0 {
		return nil
	}
	return time.After(w.Policy.TermGrace + endSlack)
}

// awaitGateway tells everybody of its end.
func (w *watcher) awaitGateway() {
	if _, err := linux.PollUntil(time.Time{}, unix.PollFd{Fd: int32(w.Gateway), Events: unix.POLLIN}); err == nil {
		w.ears.lookAtAll() // it may have spoken to one just now
		w.resting.Store(true)
		close(w.ended)
	}
}
