// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A Mode is one of the zoo's.
type Mode struct {
	Name string
	// MovesAway marks members that may have left their client's unit.
	MovesAway bool
	// KillsParent marks the mode that kills the launcher before any end.
	KillsParent bool
	// PullsParent marks the modes that move launcher or guard into their own group.
	PullsParent bool
	// KeepsStopping marks modes whose launcher or guard may need a sweep to be continued.
	KeepsStopping bool
	// StopsGuard marks the mode that stops its guard: until a sweep nobody acts, whatever the end.
	StopsGuard bool
	weight     int  // against Slots
	storm      bool // its members fork without end
}

// remarkable are the modes that are not like the others.
var remarkable = map[string]Mode{
	"move-sibling":      {MovesAway: true},
	"move-grandparent":  {MovesAway: true},
	"move-fresh":        {MovesAway: true},
	"move-root":         {MovesAway: true},
	"move-main":         {MovesAway: true},
	"pull-parent":       {PullsParent: true},
	"pull-guard":        {PullsParent: true},
	"stop-guard":        {KeepsStopping: true, StopsGuard: true},
	"stop-parent":       {KeepsStopping: true},
	"stop-parent-first": {KeepsStopping: true},
	"stop-parent-late":  {KeepsStopping: true},
	"stop-parent-loop":  {KeepsStopping: true},
	"trace-parent":      {KeepsStopping: true},
	"kill-parent":       {KillsParent: true},
	"hop":               {weight: 2, storm: true},
	"fork-bomb":         {weight: 4, storm: true},
	"hop-storm":         {weight: 4, storm: true},
	"pairs":             {storm: true},
	"zombies-500":       {weight: 4},
	"threads-500":       {weight: 4},
	"children-2000":     {weight: All},
}

// Modes asks the zoo, so that no mode is forgotten here.
func (p Programs) Modes(t *testing.T) []Mode {
	t.Helper()
	out, err := exec.Command(p.Zoo, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []Mode
	for line := range strings.Lines(string(out)) {
		name := strings.Fields(line)[0]
		m := remarkable[name]
		m.Name = bounded(name)
		if m.weight = max(m.weight, 1); m.Name != name { // no longer so many
			m.weight = 2
		}
		all = append(all, m)
	}
	return all
}

// Nice are options of the zoo. In the core a storm leaves the processors to other tests.
func (m Mode) Nice() []string {
	if Core() && m.storm {
		return []string{"--nice", "10"}
	}
	return nil
}

// MostEnv bounds the numbers in the modes' names, for the core and for a machine that emulates its processor:
// 2,000 children take one processor ten seconds, and an emulated one half a minute.
const MostEnv = "ESCAPE_MOST"

// bounded returns the name with a number that MostEnv permits.
func bounded(name string) string {
	kind, number, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	most, limited := os.LookupEnv(MostEnv)
	if limit, _ := strconv.Atoi(most); err == nil && limited && n > limit {
		return kind + "-" + most
	}
	return name
}

// Hardest are one of each kind, for tables that can't have all.
var Hardest = strings.Fields("plain setsid hop hop-storm threads-500 dead-leader children-2000 ignore-both fork-on-term fork-bomb " +
	"pairs nested threaded frozen stop-parent new-pid")

// Named picks modes, in the order of the zoo.
func Named[T interface{ name() string }](t *testing.T, all []T, names ...string) []T {
	t.Helper()
	missing := make(map[string]bool)
	for _, name := range names {
		missing[bounded(name)] = true
	}
	var some []T
	for _, one := range all {
		if missing[one.name()] {
			some = append(some, one)
			delete(missing, one.name())
		}
	}
	if len(missing) > 0 {
		t.Fatalf("not found: %v", missing)
	}
	return some
}

func (m Mode) name() string { return m.Name }

// require skips a cell that the host can't have. Without root every other namespace needs a user namespace.
func (m Mode) require(s *Site) {
	s.T.Helper()
	if m.Name == "new-user" || strings.HasPrefix(m.Name, "new-") && s.UID != 0 {
		bed.Require(s.T, bed.UserNamespaces)
	}
}
