// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// foreignLook bounds the time to judge the groups in one tree of another user, without the stops of orphans.
const foreignLook = 500 * time.Millisecond

// allowance is the time for one tree of another user, who can make it long: by very many locks of files, or
// by very many groups that are orphans or look so. A nil allowance has no bound.
type allowance struct {
	until time.Time // then no stop begins any more

	mu       sync.Mutex // groups are judged while others are stopped
	looked   time.Duration
	since    time.Time // when groups began to be judged; zero if none are
	isMissed bool      // something was left out
}

// look measures a time in which groups are judged. It returns what ends that.
func (a *allowance) look() (end func()) {
	if a == nil {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = time.Now()
	return a.endLook
}

func (a *allowance) endLook() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked += time.Since(a.since)
	a.since = time.Time{}
}

// isSpent comes before each step. If it is true the caller leaves the step out.
func (a *allowance) isSpent() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	looked := a.looked
	if !a.since.IsZero() {
		looked += time.Since(a.since)
	}
	isSpent := looked > foreignLook || time.Now().After(a.until)
	a.isMissed = a.isMissed || isSpent
	return isSpent
}

// visitForeign visits a tree of another user with an allowance of its own.
func (s *sweeper) visitForeign(uid int, dir string, visit func() error) error {
	s.foreign = &allowance{until: time.Now().Add(policy.DoubtMost)}
	defer func() { s.foreign = nil }()
	err := visit()
	if s.foreign.isMissed {
		missed := "not all groups of user %d in %s were checked: a sweep by that user does it"
		return errors.Join(err, fmt.Errorf(missed, uid, dir))
	}
	return err
}
