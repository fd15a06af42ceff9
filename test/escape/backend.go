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

// A Backend is where groups come from, and all that a cell has to know of that.
type Backend struct {
	Name string // the value of --backend
	// Site makes the surroundings of one cell.
	Site func(*testing.T) *Site
	// Groups is the directory of the groups of those clients that are in the group client.
	// It is nil where a server has none: then nobody looks where its members are born,
	// and nothing has to be removed.
	Groups func(s *Site, client string) string
	// Removal is how long a group may outlast its server, where somebody else removes it.
	Removal time.Duration
	// Owns tells that the groups are below the client's own, whose end takes them away.
	Owns bool
	// Exempt says why members may be left, or "". Such a cell has to leave some.
	Exempt func(Mode, End) string
	// Hasty says why somebody else may kill the guard before it has done its work, or "".
	// Then the launcher does it, and has to say so; what is left of the group is for a sweep.
	Hasty func(Mode, End) string
	// Refused says, by mode, what the kernel answers there to what that mode tries.
	Refused map[string]error
	// Idle: servers are frozen when they do nothing, and a cell waits for that. Its modes have to come to
	// rest.
	Idle bool
	// Starts bounds the cells that start their servers at a time, if it is not nil.
	Starts *Semaphore
	// Hold is held for all the time of a cell, against those who disturb all others.
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

// Servers are the directories of the groups, in dir, of the servers called name; of one with
// an id, or of any.
func Servers(dir, name, id string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "mcp-"+name+"-"+id, "cgroup.procs")) // the pattern is valid
	for i, file := range found {
		found[i] = filepath.Dir(file)
	}
	return found
}

// AwaitGuards waits for the guards of groups in dir, which remove those. It is for a dir that no other test
// uses, whose members may be there for long.
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
