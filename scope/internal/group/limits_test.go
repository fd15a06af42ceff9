// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/test/groups"
)

// What a member has written as the names of limits is no way to other files.
func TestLimitsNow(t *testing.T) {
	g := newGroup(t, groups.Directory(t), "named")
	defer g.Close()
	if all := g.LimitsNow(); all != nil {
		t.Errorf("without a limit: %v", all)
	}
	g.Limited([]string{"cgroup.max.depth"})
	g.Limited([]string{"cgroup.max.depth", "cgroup.freeze"})
	if err := g.Payload.SetAttr(attrLimits, strings.Join(g.LimitedFiles(), " ")+" ../cgroup.procs /etc/passwd nope \x00 .. "+strings.Repeat("cgroup.stat ", 1000)); err != nil {
		t.Fatal(err)
	}
	all := g.LimitsNow()
	if len(all) != 3 || all["cgroup.max.depth"] != "max" || all["cgroup.freeze"] != "0" || !strings.HasPrefix(all["cgroup.stat"], "nr_descendants 0, ") {
		t.Errorf("%v", all)
	}
}

// A file that its kernel has not, or that takes no such value, is no limit.
func TestLimitThatDoesNotHold(t *testing.T) {
	g := newGroup(t, groups.Directory(t), "odd")
	defer g.Close()
	for _, l := range []cgroup.Limit{{File: "cgroup.nope", Value: "1"}, {File: "cgroup.freeze", Value: "7"}, {File: "cgroup.events", Value: "1"}, {File: "nope.max", Value: "1"}} {
		var limit *protocol.LimitError
		if now, err := g.Limit(l, protocol.Cgroup); !errors.As(err, &limit) || !strings.HasPrefix(err.Error(), "set "+l.String()+": ") {
			t.Errorf("%s: %q, %v", l, now, err)
		}
	}
}

// Each place where a controller ends has a step of its own.
func TestMissingStep(t *testing.T) {
	const own = "/sys/fs/cgroup"
	for _, c := range []struct {
		missing cgroup.MissingError
		from    protocol.Backend
		want    string
	}{
		{cgroup.MissingError{Controller: "io", Group: own}, protocol.Cgroup, "echo +io > /sys/fs/cgroup/cgroup.subtree_control"},
		{cgroup.MissingError{Controller: "io", Group: own + "/system.slice/a.service", Crowded: true}, protocol.Delegated,
			"the client itself is in that group, which then can't limit groups in it: limit the whole unit (systemctl set-property a.service MemoryMax=…), or have the client in a group below (DelegateSubgroup=) and echo +io > /sys/fs/cgroup/system.slice/a.service/cgroup.subtree_control"},
	} {
		if got := MissingStep(&c.missing, c.from); got != c.want {
			t.Errorf("%+v: %q, want %q", c.missing, got, c.want)
		}
	}
}
