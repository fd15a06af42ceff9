// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"sync"
	"time"

	"github.com/mcpscope/mcpscope/test/pace"
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
	deadline := pace.Now().Add(limit)
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
		case <-time.After(pace.Step(deadline)):
			if pace.Until(deadline) <= 0 {
				return false
			}
		}
	}
}
