// SPDX-License-Identifier: Apache-2.0

package containment

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// The place of guard and watcher decides. A step that is still to come decides nothing.
func TestJudge(t *testing.T) {
	const unit, scope = "/system.slice/g.service", "/mcp.slice/mcpscope-gateway-1.scope"
	ofAnother := process{Group: scope, GatewayGroup: "/system.slice/g.service2"}
	for name, c := range map[string]struct {
		snapshot
		want State
	}{
		"watcher in a scope":              {snapshot{watchers: []process{{Group: scope, GatewayGroup: unit}}}, Contained},
		"watcher in a leaf of the unit":   {snapshot{watchers: []process{{Group: unit + "/guards", GatewayGroup: unit}}}, Contained},
		"gateway in a group of its unit":  {snapshot{watchers: []process{{Group: unit + "/guards", GatewayGroup: unit + "/main"}}}, Contained},
		"watcher of trees has no name":    {snapshot{watchers: []process{{Group: scope, GatewayGroup: unit, ReadOnly: true}}}, Undecided},
		"watcher of trees":                {snapshot{watchers: []process{{Group: unit, GatewayGroup: unit, ReadOnly: true, HasTrees: true}}}, Weaker},
		"watcher has not moved":           {snapshot{watchers: []process{{Group: unit, GatewayGroup: unit}}}, Undecided},
		"guard has not started a watcher": {snapshot{guards: []process{{Group: unit}}}, Undecided},
		"watcher of the guard has ended":  {snapshot{guards: []process{{Group: unit, ReapedChild: true}}}, Uncontained},
		"no process":                      {snapshot{}, Uncontained},
		"those of another unit":           {snapshot{watchers: []process{ofAnother}, guards: []process{{Group: scope}}}, Uncontained},
		"the next watcher has not moved": {snapshot{
			watchers: []process{{Group: unit, GatewayGroup: unit}}, guards: []process{{Group: unit, ReapedChild: true}},
		}, Undecided},
	} {
		if got := c.judge(unit); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A process that is mcpscope itself has yet to become the gateway; a gateway in a unit of the machine that has
// neither guard nor watcher is not contained.
func TestFindState(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	early := filepath.Join(t.TempDir(), "mcpscope")
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(early, text, 0o700); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]State{sleep: Uncontained, early: Undecided} {
		cmd := exec.Command(program, "infinity")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := FindState(cmd.Process.Pid, "/nowhere"); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
		_ = cmd.Process.Kill() // not reaped yet
		_ = cmd.Wait()
	}
}

// Only gateways that were refused are listed, each once, and those of other users for everyone.
func TestUncontainedGroups(t *testing.T) {
	s := snapshot{
		guards: []process{
			{UID: 1, Group: "/refused.service", ReapedChild: true},
			{UID: 1, Group: "/refused.service", ReapedChild: true},
			{UID: 2, Group: "/other.service", ReapedChild: true},
			{UID: 1, Group: "/starting.service"},
			{UID: 1, Group: "/mcp.slice/mcpscope-gateway-1.scope", ReapedChild: true},
			{UID: 1, Group: "/delegated.service/guards", ReapedChild: true},
			{UID: 1, Group: "/next.service", ReapedChild: true},
		},
		watchers: []process{
			{UID: 1, Group: "/next.service", GatewayGroup: "/next.service"},
			{UID: 2, Group: "/mcp.slice/mcpscope-gateway-1.scope", GatewayGroup: "/fine.service"},
			{UID: 2, Group: "/mcp.slice/mcpscope-gateway-2.scope"},
		},
	}
	for users, want := range map[group.Users][]string{
		group.Everyone(): {"/refused.service", "/other.service"}, group.OneUser(0): nil,
		group.OneUser(1): {"/refused.service"}, group.OneUser(3): nil,
	} {
		if got := s.uncontained(users); !slices.Equal(got, want) {
			t.Errorf("of %+v: %q, want %q", users, got, want)
		}
	}
}

// Only a process that can write to no cgroup2 mount is restricted.
func TestReadOnlyMounts(t *testing.T) {
	const ro = "36 24 0:29 / /sys/fs/cgroup ro,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	const rw = "37 24 0:29 / /sys/fs/cgroup rw,nosuid,nodev - cgroup2 cgroup2 rw\n"
	const v1 = "38 24 0:30 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n39 24 0:5 / /dev ro - devtmpfs udev rw\n"
	for text, want := range map[string]bool{ro: true, rw: false, ro + rw: false, rw + ro: false, v1: false, v1 + ro: true, "": false, "x\n": false} {
		if got := areReadOnly(proc.ParseMounts(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
