// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// endSlack is for all of a server's end but its term grace.
const endSlack = 5 * time.Second

// follow stops a server when it has to end. It kills members that are left because its guard or a later
// brain was killed, or stopped when the gateway ended.
func (w *watcher) follow(t *launcher.Taken, grace time.Duration) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		t.Live()
		awaitPolled(t.Alive)
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
	t.Over()
}

// awaitPolled waits until a descriptor is readable or hung up, without a thread of its own. It returns for no
// other reason: a server is ended then.
func awaitPolled(fd int) {
	for awaitReadable(fd) != nil {
		time.Sleep(time.Second) // for lack of memory: the kernel has no other reason
	}
}

func awaitReadable(fd int) error {
	l, err := loop.New()
	if err != nil {
		return err
	}
	defer l.Close()
	if err = l.Add(fd, loop.TokenInput); err == nil {
		l.Next(time.Time{})
	}
	return err
}
