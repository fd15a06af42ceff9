package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A mode is one of the zoo's.
type mode struct {
	name string
	// movesAway marks members that are in no group of mcpscope's any more.
	movesAway bool
	// killsParent marks the mode that kills the supervisor before any end.
	killsParent bool
	// keepsStopping marks the mode whose supervisor may need a sweep to be woken.
	keepsStopping bool
	weight        int // against slots
}

// slots bounds the cells at a time; with more of them two cores only fight.
var slots = newSemaphore(12)

// remarkable are the modes that are not like the others.
var remarkable = map[string]mode{
	"move-sibling":     {movesAway: true},
	"move-grandparent": {movesAway: true},
	"move-fresh":       {movesAway: true},
	"move-root":        {movesAway: true},
	"move-main":        {movesAway: true},
	"stop-parent-loop": {keepsStopping: true},
	"kill-parent":      {killsParent: true},
	"fork-bomb":        {weight: 6},
	"hop-storm":        {weight: 8},
	"zombies-500":      {weight: 6},
	"threads-500":      {weight: 4},
	"children-2000":    {weight: 12},
}

// allModes asks the zoo, so that no mode is forgotten here.
func allModes(t *testing.T) []mode {
	t.Helper()
	out, err := exec.Command(binaries.zoo, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []mode
	for line := range strings.Lines(string(out)) {
		name := strings.Fields(line)[0]
		m := remarkable[name]
		m.name, m.weight = name, max(m.weight, 1)
		all = append(all, m)
	}
	return all
}

// TestEscape holds the promise that nothing survives and nothing else dies, for
// each way to stay alive and each way to end.
func TestEscape(t *testing.T) {
	t.Parallel()
	fill(t, newTable("escape", binaries.mcpscope, allModes(t), ends))
}

// TestEscapeWithoutCgroupKill holds it where the kernel has no cgroup.kill (before
// 5.14): there the group is frozen, and each member killed.
func TestEscapeWithoutCgroupKill(t *testing.T) {
	t.Parallel()
	if bare {
		return
	}
	var hardest []mode
	for _, m := range allModes(t) {
		switch m.name {
		case "plain", "setsid", "hop", "hop-storm", "threads-500", "dead-leader", "children-2000", "ignore-both", "fork-on-term",
			"fork-bomb", "pairs", "nested", "threaded", "frozen", "stop-parent", "new-pid":
			hardest = append(hardest, m)
		}
	}
	var some []end
	for _, e := range ends {
		switch e.name {
		case "stdin", "TERM", "kill", "superv":
			some = append(some, e)
		}
	}
	fill(t, newTable("escape without cgroup.kill", binaries.withoutKill, hardest, some))
}

// fill runs every cell of a table and prints it.
func fill(t *testing.T, table *table) {
	t.Run("cells", func(t *testing.T) {
		for _, m := range table.modes {
			for _, e := range table.ends {
				t.Run(m.name+"/"+e.name, func(t *testing.T) {
					t.Parallel()
					escape(t, table, m, e)
				})
			}
		}
	})
	table.publish(t)
}

func escape(t *testing.T, table *table, m mode, e end) {
	if e.killsGroup {
		bed.Require(t, bed.CgroupKill)
	}
	if m.name == "new-user" {
		bed.Require(t, bed.UserNamespaces)
	}
	defer slots.take(m.weight)()
	if bare && e.killsSupervisor {
		return // there is none
	}
	c := newCell(t, table.program, m, e)
	c.up(e)
	e.do(c)
	if bare {
		c.measure()
	} else {
		c.judge(e)
		c.alone()
	}
	table.put(m.name, e.name, c.result)
}
