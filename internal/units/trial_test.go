// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// moment is the state of a service from some time on.
type moment struct {
	after   time.Duration
	servers int
	service systemd.Service
}

// A trial ends with the first server, or after some time, or with the service.
func TestTry(t *testing.T) {
	state := func(active, sub, invocation, result string, pid int) systemd.Service {
		return systemd.Service{
			Unit:    systemd.Unit{Name: "g.service", ActiveState: active, SubState: sub, Invocation: invocation},
			Process: systemd.MainProcess{PID: pid, Result: result},
		}
	}
	runs := state("active", "running", "a", "success", 7)
	again := state("active", "running", "b", "success", 8)
	ended := state("failed", "failed", "a", "exit-code", 0)
	waits := state("activating", "auto-restart", "a", "exit-code", 0)
	ending := state("deactivating", "stop-post", "a", "exit-code", 0)
	const second = time.Second
	const failed = "g.service does not run: it is failed, its result is exit-code"
	for name, c := range map[string]struct {
		moments []moment
		servers int
		took    time.Duration
		err     string
	}{
		"no server":        {[]moment{{0, 0, runs}}, 0, triedFor, ""},
		"a server":         {[]moment{{0, 0, runs}, {second, 2, runs}}, 2, second, ""},
		"it fails at once": {[]moment{{0, 0, ended}}, 0, 0, failed},
		"it fails":         {[]moment{{0, 0, runs}, {second, 0, ended}}, 0, second, failed},
		"it is restarted":  {[]moment{{0, 0, runs}, {second, 3, again}}, 0, second, "g.service has ended soon after its start"},
		"it will restart":  {[]moment{{0, 0, runs}, {second, 0, waits}}, 0, second, "g.service does not run: it is activating"},
		"its end takes":    {[]moment{{0, 0, runs}, {second, 0, ending}, {2 * second, 0, ended}}, 0, 2 * second, failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				now := func() (last moment) {
					for _, m := range c.moments {
						if time.Since(began) >= m.after {
							last = m
						}
					}
					return last
				}
				trial, err := trying{
					count: func(int) int { return now().servers },
					read:  func() (systemd.Service, error) { return now().service, nil },
					judge: func(s systemd.Service) (Containment, error) {
						if s.Process.PID == 0 && s.ActiveState != "deactivating" {
							return Containment{}, notRunning(s)
						}
						if s.Process.PID == 0 {
							return Containment{State: containment.Undecided}, nil
						}
						return Containment{State: containment.Contained}, nil
					},
				}.await()
				took := time.Since(began)
				if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				if trial.Servers != c.servers || took < c.took || took > c.took+lookEvery {
					t.Errorf("%+v after %v, want %d after %v", trial, took, c.servers, c.took)
				}
			})
		})
	}
}

// A service that does not run stays so, and a job is started by its timer.
func TestWhyNotStarted(t *testing.T) {
	for name, c := range map[string]struct{ kind, state, want string }{
		"running": {"notify", "active", ""},
		"failed":  {"simple", "failed", ""},
		"job":     {"oneshot", "inactive", "g.service is Type=oneshot"},
		"stopped": {"simple", "inactive", "g.service does not run"},
	} {
		g := Gateway{Name: ServiceName{Entered: "g", Full: "g.service"}, service: serviceOf("/bin/g")}
		g.service.Settings.Type = c.kind
		g.service.ActiveState = c.state
		reason, next := g.WhyNotStarted()
		if (reason == "") != (c.want == "") || (next == "") != (c.want == "") || !strings.HasPrefix(reason, c.want) {
			t.Errorf("%s: %q, %q, want %q", name, reason, next, c.want)
		}
	}
}

// A remedy names what the service lacks.
func TestWhyUncontained(t *testing.T) {
	below := serviceOf("/opt/mcpscope", "gateway", "--", "/bin/g").Commands
	for name, c := range map[string]struct {
		change     func(*systemd.Service)
		want, hint string
	}{
		"bare":      {func(s *systemd.Service) { s.Commands = serviceOf("/bin/g").Commands }, "its manager starts it without mcpscope", "--unit g.service --install --now"},
		"later":     {func(s *systemd.Service) { s.Commands = nil; s.DropIns = []string{"/x/zz-mcpscope.conf", "/x/zzz.conf"} }, "another drop-in sorts after", "rename it: /x/zzz.conf"},
		"read-only": {func(s *systemd.Service) { s.Settings.ReadOnly = true }, "ProtectControlGroups=yes", "add ProtectControlGroups=no"},
		"filtered":  {func(s *systemd.Service) { s.Settings.Calls.AllowsOnly = true }, "its SystemCallFilter= forbids", "add SystemCallFilter="},
	} {
		s := systemd.Service{Unit: systemd.Unit{Name: "g.service"}, Commands: below}
		c.change(&s)
		reason, remedy := whyUncontained(s)
		if !strings.Contains(reason, c.want) || !strings.Contains(remedy, c.hint) {
			t.Errorf("%s: %q, %q", name, reason, remedy)
		}
	}
}
