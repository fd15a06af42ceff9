// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// table counts what came of the faults on one backend.
type table struct {
	backend string
	points  int
	repeats int // of these points, which were not tried
	began   time.Time

	mu      sync.Mutex
	counts  map[verdict]int
	kinds   map[string]int
	skipped []string // the points that were not reached
}

func newTable(backend string, points, repeats int) *table {
	return &table{backend: backend, points: points, repeats: repeats, began: time.Now(), counts: map[verdict]int{}, kinds: map[string]int{}}
}

func (t *table) put(kind, where string, v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[v]++
	t.kinds[kind]++
	if v == notReached {
		t.skipped = append(t.skipped, where)
	}
}

func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	tried := 0
	var parts []string
	for _, v := range verdicts {
		tried += t.counts[v]
		parts = append(parts, fmt.Sprintf("%d %s", t.counts[v], v))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\nfaults, backend %s: %d points (and %d repetitions of them), %d faults tried in %.1f s: %s\n", t.backend, t.points, t.repeats, tried,
		time.Since(t.began).Seconds(), strings.Join(parts, ", "))
	var kinds []string
	for k, n := range t.kinds {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(kinds)
	fmt.Fprintf(&out, "    %s\n", strings.Join(kinds, ", "))
	if len(t.skipped) > 0 {
		slices.Sort(t.skipped)
		fmt.Fprintf(&out, "    not reached: %s\n", strings.Join(slices.Compact(t.skipped), ", "))
	}
	return out.String()
}
