//go:build linux

package scope

import (
	"errors"
	"testing"

	"github.com/mcpscope/mcpscope/resources"
)

func TestParsePressure(t *testing.T) {
	const both = "some avg10=1.50 avg60=0.25 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n"
	p, ok := parsePressure(both)
	if !ok || p.Avg10 != 1.5 || p.Avg60 != 0.25 || p.Some != 2.5 || p.Full == nil || *p.Full != 0.5 {
		t.Errorf("%+v, %v", p, ok)
	}
	p, ok = parsePressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n") // of the processor, before 5.13
	if !ok || p.Full != nil || p.Some != 7e-6 {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, bad := range []string{"", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", "some avg10=x\n", "some"} {
		if p, ok := parsePressure(bad); ok {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

func TestBiggest(t *testing.T) {
	s := &shortage{seen: map[int]Consumer{}}
	for pid := 1; pid <= 2*consumersMost; pid++ {
		s.add(Consumer{PID: pid, Name: "p", Bytes: uint64(pid) << 20})
	}
	s.add(Consumer{PID: 3, Name: "grown", Bytes: 1 << 40})
	s.add(Consumer{PID: 3, Name: "", Bytes: 1}) // a zombie that has no memory left, and then no name
	s.add(Consumer{PID: 99, Name: "nothing", Bytes: 0})
	all := s.biggest()
	if len(all) != consumersMost || all[0] != (Consumer{PID: 3, Name: "grown", Bytes: 1 << 40}) || all[1].PID != 2*consumersMost {
		t.Errorf("%v", all)
	}
}

// Each place where a controller ends has a step of its own.
func TestMissingStep(t *testing.T) {
	const own = "/sys/fs/cgroup"
	for _, c := range []struct {
		missing resources.MissingError
		from    Backend
		want    string
	}{
		{resources.MissingError{Controller: "io", Group: own}, Cgroup, "echo +io > /sys/fs/cgroup/cgroup.subtree_control"},
		{resources.MissingError{Controller: "io", Group: own, Crowded: true}, Cgroup, "move the processes of /sys/fs/cgroup to a group below it, then echo +io > /sys/fs/cgroup/cgroup.subtree_control"},
		{resources.MissingError{Controller: "io", Group: own + "/mcp.slice"}, Cgroup, "mcp.slice is systemd's here: --backend systemd-system"},
		{resources.MissingError{Controller: "io", Kernel: "k"}, Cgroup, "k"},
		{resources.MissingError{Controller: "io", Group: own + "/system.slice/a.service", Crowded: true}, Delegated,
			"the client itself is in that group, which then can't limit groups in it: limit the whole unit (systemctl set-property a.service MemoryMax=…), or have the client in a group below (DelegateSubgroup=) and echo +io > /sys/fs/cgroup/system.slice/a.service/cgroup.subtree_control"},
		{resources.MissingError{Controller: "io", Group: own + "/system.slice"}, Delegated, "delegate it (Delegate=io), or echo +io > /sys/fs/cgroup/system.slice/cgroup.subtree_control"},
	} {
		if got := missingStep(&c.missing, c.from); got != c.want {
			t.Errorf("%+v: %q, want %q", c.missing, got, c.want)
		}
	}
}

// A launcher hears of a limit what the supervisor has found.
func TestLimitErrorIsTold(t *testing.T) {
	m := message{Type: sayFailed, Text: "set a=1: no", Limit: true, Hint: "do b"}
	var again message
	if err := decode(encode(&m), &again); err != nil {
		t.Fatal(err)
	}
	var limit *LimitError
	if err := again.failure("x"); !errors.As(err, &limit) || *limit != (LimitError{Text: "set a=1: no", Step: "do b"}) {
		t.Errorf("%v", err)
	}
}
