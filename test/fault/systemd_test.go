// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// managed is the backend of a user's manager, the system's for root.
func managed(u host.User) backend {
	b := backend{name: "systemd-system", managed: true, lane: func(t *testing.T) *lane { return newUnit(t, u) }}
	if u.UID != 0 {
		b.name = "systemd-user"
	}
	b.groups = func(*escape.Site) string { return u.Slice() }
	return b
}

// newUnit is a lane whose clients are in a unit of the manager, to which their scopes are
// bound.
func newUnit(t *testing.T, u host.User) *lane {
	t.Helper()
	h := host.Current(t)
	group, err := h.Start(t, host.Service{User: u, Argv: []string{"sleep", "infinity"}}).Group()
	if err != nil {
		t.Fatal(err)
	}
	s := &escape.Site{T: t, Programs: programs, UID: u.UID, Dir: group, View: group}
	s.Command = func(args ...string) *exec.Cmd {
		cmd := h.Command(u, args...)
		if u.UID == 0 {
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "LANG=C.UTF-8"}
		}
		return cmd
	}
	s.Root = s.Bystander("in the unit", group, s.Command("cat"))
	return &lane{site: s, client: group}
}

// ways are the sockets of a manager, the first that mcpscope tries first.
func ways(u host.User) map[string]*way {
	private, bus := "/run/systemd/private", "/run/dbus/system_bus_socket"
	if u.UID != 0 {
		private, bus = filepath.Join(u.RuntimeDir(), "systemd/private"), filepath.Join(u.RuntimeDir(), "bus")
	}
	return map[string]*way{"private": {u, private, ""}, "bus": {u, bus, private}}
}

// TestFaultsOfTheBus holds the promises at every message to or from a manager.
func TestFaultsOfTheBus(t *testing.T) {
	t.Parallel() // beside TestFaults, which asks no manager: a bus that is slow leaves the processors to others
	bed.Require(t, pidfdHangUp)
	if !escape.Full() {
		return // a bus that is slow or silent takes its time
	}
	for _, u := range []host.User{host.Root, host.Tester} {
		for name, y := range ways(u) {
			b := managed(u)
			b.way = y
			b.everyMessage(t, name, fmt.Sprintf("%s by the %s socket", b.name, name))
		}
		b := early(u)
		b.everyMessage(t, "early", b.name+" by the private socket, while the server runs")
	}
}

func (b backend) everyMessage(t *testing.T, name, title string) {
	t.Run(b.name+"/"+name, func(t *testing.T) {
		t.Parallel()
		// one at a time: a manager tells everybody of everybody's units
		b.everywhere(t, title, 1, isMessage)
	})
}

// early is managed for servers that run before their manager is asked; what differs is not the way to that.
func early(u host.User) backend {
	b := managed(u)
	b.way, b.early = ways(u)["private"], true
	return b
}

// A manager that is handed a dead process has a scope of which no event comes any more. It hears of its end all the same.
func TestScopeOfTheDead(t *testing.T) {
	for _, u := range []host.User{host.Root, host.Tester} {
		b := early(u)
		t.Run(b.name, func(t *testing.T) {
			r := b.newLane(t).start(t, &shot{visit{point: point{role: toManager, call: "call StartTransientUnit", n: 1}}, fault{act: bury}})
			r.live()
			r.nobodyLeft()
			if len(r.odd) > 0 || !r.watcher.fired {
				t.Errorf("fired %v; %s", r.watcher.fired, r.explain())
			}
			if !r.groupsGone(removal) {
				t.Errorf("left: %q", r.lane.left(r.name))
			}
		})
	}
}

func isMessage(v visit) bool { return v.role == toManager || v.role == fromManager }

func isCall(v visit) bool { return !isMessage(v) }

// TestFaultsOfManagedServers holds the promises at every system call where groups are scopes. It is not beside the others,
// which would keep a manager from starting a scope in time.
func TestFaultsOfManagedServers(t *testing.T) {
	bed.Require(t, pidfdHangUp)
	if !escape.Full() {
		return // what differs from the backend cgroup are the messages
	}
	for _, u := range []host.User{host.Root, host.Tester} {
		b := managed(u)
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			b.everywhere(t, b.name, 3, isCall)
		})
	}
}
