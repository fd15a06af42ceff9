// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/scope/internal/report"
)

func TestBiggest(t *testing.T) {
	s := &oomWatch{seen: map[int]report.Consumer{}}
	for pid := 1; pid <= 2*consumersMost; pid++ {
		s.add(report.Consumer{PID: pid, Name: "p", Bytes: uint64(pid) << 20})
	}
	s.add(report.Consumer{PID: 3, Name: "grown", Bytes: 1 << 40})
	s.add(report.Consumer{PID: 3, Name: "", Bytes: 1}) // a zombie that has no memory left, and then no name
	s.add(report.Consumer{PID: 99, Name: "nothing", Bytes: 0})
	all := s.biggest()
	if len(all) != consumersMost || all[0] != (report.Consumer{PID: 3, Name: "grown", Bytes: 1 << 40}) || all[1].PID != 2*consumersMost {
		t.Errorf("%v", all)
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
		{cgroup.MissingError{Controller: "io", Group: own, Crowded: true}, protocol.Cgroup, "move the processes of /sys/fs/cgroup to a group below it, then echo +io > /sys/fs/cgroup/cgroup.subtree_control"},
		{cgroup.MissingError{Controller: "io", Group: own + "/mcp.slice"}, protocol.Cgroup, "mcp.slice is systemd's here: --backend systemd-system"},
		{cgroup.MissingError{Controller: "io", Kernel: "k"}, protocol.Cgroup, "k"},
		{cgroup.MissingError{Controller: "io", Group: own + "/system.slice/a.service", Crowded: true}, protocol.Delegated,
			"the client itself is in that group, which then can't limit groups in it: limit the whole unit (systemctl set-property a.service MemoryMax=…), or have the client in a group below (DelegateSubgroup=) and echo +io > /sys/fs/cgroup/system.slice/a.service/cgroup.subtree_control"},
		{cgroup.MissingError{Controller: "io", Group: own + "/system.slice"}, protocol.Delegated, "delegate it (Delegate=io), or echo +io > /sys/fs/cgroup/system.slice/cgroup.subtree_control"},
	} {
		if got := group.MissingStep(&c.missing, c.from); got != c.want {
			t.Errorf("%+v: %q, want %q", c.missing, got, c.want)
		}
	}
}

// A launcher hears of a limit what the supervisor has found.
func TestLimitErrorIsTold(t *testing.T) {
	m := protocol.Message{Type: protocol.SayFailed, Text: "set a=1: no", Limit: true, Hint: "do b"}
	var again protocol.Message
	if err := protocol.Decode(protocol.Encode(&m), &again); err != nil {
		t.Fatal(err)
	}
	var limit *protocol.LimitError
	if err := again.Failure("x"); !errors.As(err, &limit) || *limit != (protocol.LimitError{Text: "set a=1: no", Step: "do b"}) {
		t.Errorf("%v", err)
	}
}
