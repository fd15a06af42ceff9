// SPDX-License-Identifier: Apache-2.0

package units

import (
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

// A report has the servers that a gateway starts in a row, and its end.
func TestAwaitServers(t *testing.T) {
	runs := systemd.Service{Name: "g.service", ActiveState: "active", MainPID: 7, Invocation: "a"}
	again := systemd.Service{Name: "g.service", ActiveState: "active", MainPID: 8, Invocation: "b"}
	ended := systemd.Service{Name: "g.service", ActiveState: "failed", Result: "exit-code", Invocation: "a"}
	ending := systemd.Service{Name: "g.service", ActiveState: "deactivating", Invocation: "a"}
	waiting := systemd.Service{Name: "g.service", ActiveState: "activating", Invocation: "a"}
	const second = time.Second
	for name, c := range map[string]struct {
		moments []moment
		servers int
		state   containment.State
		within  time.Duration
		err     string
	}{
		"no server":         {[]moment{{0, 0, runs}}, 0, containment.Contained, serversWithin, ""},
		"servers in a row":  {[]moment{{0, 0, runs}, {second, 1, runs}, {second + noMoreWithin/2, 4, runs}}, 4, containment.Contained, 2 * second, ""},
		"servers at once":   {[]moment{{0, 2, runs}}, 2, containment.Contained, noMoreWithin, ""},
		"ever more servers": {[]moment{{0, 1, runs}, {second / 2, 2, runs}, {second, 3, runs}, {3 * second / 2, 4, runs}, {2 * second, 5, runs}, {5 * second / 2, 6, runs}}, 6, containment.Contained, serversWithin, ""},
		"it fails":          {[]moment{{0, 0, runs}, {second, 0, ended}}, 0, "", second, "g.service does not run: it is failed, its result is exit-code"},
		"it fails late":     {[]moment{{0, 1, runs}, {noMoreWithin / 2, 0, ended}}, 0, "", noMoreWithin, "g.service does not run: it is failed, its result is exit-code"},
		"it is restarted":   {[]moment{{0, 3, runs}, {noMoreWithin / 2, 3, again}}, 0, "", noMoreWithin, "g.service has ended soon after its start, and was started again"},
		"its end takes":     {[]moment{{0, 0, runs}, {second, 0, ending}, {2 * second, 0, ended}}, 0, "", 2 * second, "g.service does not run: it is failed, its result is exit-code"},
		"it will restart":   {[]moment{{0, 0, runs}, {second, 0, waiting}}, 0, containment.Undecided, serversWithin, ""},
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
				w := settling{
					count: func() int { return now().servers },
					read:  func() (systemd.Service, error) { return now().service, nil },
					judge: func(s systemd.Service) (Containment, error) {
						if s.MainPID == 0 {
							return containmentOf(systemd.System, s)
						}
						return Containment{State: containment.Contained}, nil
					},
				}
				got, err := w.await()
				took := time.Since(began)
				if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
					t.Errorf("%v, want %q", err, c.err)
				}
				if got.State != c.state || got.Servers != c.servers {
					t.Errorf("%+v, want %s, %d servers", got, c.state, c.servers)
				}
				if took > c.within+countEvery {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
