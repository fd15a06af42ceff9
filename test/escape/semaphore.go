// SPDX-License-Identifier: Apache-2.0

package escape

import "sync"

// Slots bounds the work that goes on at a time; with more of it two cores only fight.
var Slots = NewSemaphore(12)

// A Semaphore bounds work; heavy work takes several of its tokens.
type Semaphore struct {
	taking sync.Mutex // one taker at a time, or two could each hold half
	tokens chan struct{}
}

// NewSemaphore has n tokens.
func NewSemaphore(n int) *Semaphore {
	return &Semaphore{tokens: make(chan struct{}, n)}
}

// Take takes n tokens, or all there are.
func (s *Semaphore) Take(n int) (release func()) {
	n = min(n, cap(s.tokens))
	s.taking.Lock()
	defer s.taking.Unlock()
	for range n {
		s.tokens <- struct{}{}
	}
	return func() {
		for range n {
			<-s.tokens
		}
	}
}
