// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A Backend is a source of groups, with all that a cell must know of it.
type Backend struct {
	Name string // the value of --backend
	// Site makes the surroundings of one cell.
	Site func(*testing.T) *Site
	// Groups returns the directory of the servers' groups, for clients in the group client.
	// It is nil if servers have no group. Then a cell does not check where members are born,
	// and no group must be removed.
	Groups func(s *Site, client string) string
	// Removal is how long a group may outlast its server if systemd removes it, otherwise 0.
	Removal time.Duration
	// Owns means that the groups are inside the client's own, and are killed and removed with it.
	Owns bool
	// Exempt returns the reason why members survive, or "". An exempt cell can leave some.
	Exempt func(Mode, End) string
	// Hasty returns the reason why the manager may kill the guard before its work is done, or "".
	// Then the launcher does the work and must report that; a sweep removes a remaining group.
	Hasty func(Mode, End) string
	// Refused has, by mode, the error that the kernel returns to that mode's attempt.
	Refused map[string]error
	// Idle: servers are frozen while idle, and a cell waits for the freeze. Its modes must become idle.
	Idle bool
	// Starts bounds the cells that start their servers at a time, if it is not nil.
	Starts *Semaphore
	// Hold is locked during a cell, against tests that disturb all others.
	Hold sync.Locker
}

func (b Backend) exempt(m Mode, e End) string {
	if b.Exempt == nil {
		return ""
	}
	return b.Exempt(m, e)
}

func (b Backend) hasty(m Mode, e End) bool { return b.Hasty != nil && b.Hasty(m, e) != "" }

func (b Backend) starting() (started func()) {
	if b.Starts == nil {
		return func() {}
	}
	return b.Starts.Take(1)
}

func (b Backend) hold(t *testing.T) {
	if b.Hold != nil {
		b.Hold.Lock()
		t.Cleanup(b.Hold.Unlock)
	}
}

// Servers returns the directories of the groups, in dir, of the servers called name: of the
// one with the id, or of all if id is "*".
func Servers(dir, name, id string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "mcp-"+name+"-"+id, "cgroup.procs")) // the pattern is valid
	for i, file := range found {
		found[i] = filepath.Dir(file)
	}
	return found
}

// AwaitGuards waits until the guards in dir have removed their groups and exited. No other test may use dir:
// its guards may stay for long.
func AwaitGuards(t *testing.T, dir string) {
	t.Helper()
	if err := bed.WaitEmpty(filepath.Join(dir, "guards"), Patience); err != nil {
		t.Errorf("a guard stays: %v", err)
	}
}

// WantNoServers fails the test for every group of a server called name that is still in
// dir after the limit.
func WantNoServers(t *testing.T, dir, name string, limit time.Duration) {
	t.Helper()
	deadline := pace.Now().Add(limit)
	for _, group := range Servers(dir, name, "*") {
		if err := AwaitRemoval(group, pace.Until(deadline)); err != nil {
			t.Errorf("%v: %s", err, Tree(group))
		}
	}
}
