// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"sync"
	"time"
)

// A board is state that others wait for: they are woken by the change itself.
type board struct {
	mu      sync.Mutex
	changed chan struct{}
}

func (b *board) update(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// wait returns whether done, called under the lock, became true in time.
func (b *board) wait(limit time.Duration, done func() bool) bool {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		if done() {
			b.mu.Unlock()
			return true
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-timeout.C:
			return false
		}
	}
}
