// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// serverInUnit starts a unit of the user's manager whose client has a server, and waits until the manager has the scope. When the
// unit is started again, the client has another one.
func serverInUnit(t *testing.T, u host.User, name, mode string, service host.Service) (*clientUnit, *contained) {
	t.Helper()
	m := escape.NewMembers(t)
	unit := startClientUnit(t, u, service, zoo(u, name, m, mode), append(run(u, name), programs.Zoo, "plain"))
	c := awaitServer(t, unit.first.attach(t), m, u.Slice())
	c.awaitScope()
	return unit, c
}

// awaitNext waits for the client of a unit that was started again, whose server must live until the unit is stopped.
func (u *clientUnit) awaitNext(t *testing.T, as host.User, name string) {
	t.Helper()
	next := u.next.attach(t)
	if !next.Lives("new") {
		t.Errorf("the new server does not answer: %q; stderr: %s", next.Lines(), escape.Contents(next.Stderr))
	}
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	if !next.Server.Ended(patience) {
		t.Errorf("the new launcher lives: %s", escape.Describe(next.Server.PID))
	}
	escape.WantNoServers(t, as.Slice(), name, patience)
}

// A scope is stopped after its client's unit: as long as that drains, the server answers.
func TestScopeEndsAfterItsClientsUnit(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		drain := `ExecStop=/bin/sh -c 'echo write last >DIR/first/in; read -r go <DIR/next/in'`
		unit, c := serverInUnit(t, u, "drains", "ignore-both", host.Service{User: u, Properties: []string{drain}})
		stopped := make(chan error, 1)
		go func() { stopped <- unit.Stop() }()
		if _, found := c.client.Find("out last", patience); !found {
			t.Errorf("the server does not answer during the drain: %q", c.client.Lines())
		}
		// without an order both stops have begun when ExecStop= has
		if state := control(t, u, "show", "--value", "--property=ActiveState", c.unit()); state != "active" {
			t.Errorf("the scope is %s while the unit drains", state)
		}
		if _, err := unit.next.in.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		c.wantGone("unit stopped")
	})
}

// Old servers end with the unit that crashes, those of its next start live.
func TestScopeEndsWhenItsClientsUnitCrashes(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		unit, c := serverInUnit(t, u, "crashes", "ignore-both", host.Service{User: u, Properties: []string{"Restart=always"}})
		if err := unit.Crash(); err != nil {
			t.Fatal(err)
		}
		if err := unit.AwaitRestart(); err != nil {
			t.Fatal(err)
		}
		c.wantGone("unit crashed")
		unit.awaitNext(t, u, "crashes")
	})
}

// With launcher and guard killed, systemd is the third: the scope is bound to the unit.
func TestUnitStopEndsAnOrphan(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		unit, c := serverInUnit(t, u, "orphaned", "setsid", host.Service{User: u})
		c.unguard()
		if err := unit.Stop(); err != nil {
			t.Fatal(err)
		}
		c.wantGone("unit stopped")
	})
}

// A client that drains may start a server. Bound to the unit that stops, its scope would
// wait for the stop, which waits for the drain, or cancel it.
func TestServerStartedWhileItsClientsUnitStops(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		m := escape.NewMembers(t)
		// by name: otherwise it could be in a group below the unit's own
		late := zoo(u, "late", m, "ignore-both", "--backend", backendOf(u))
		// as its last deed the unit's client starts another one, whose server answers
		unit := startClientUnit(t, u, host.Service{User: u, Properties: []string{
			"ExecStop=/bin/sh -c 'exec DIR/next/command <DIR/next/in >DIR/next/out 2>DIR/next/stderr'"}}, append(run(u, "first"), programs.Zoo, "plain"), late)
		unit.first.attach(t)
		stopped := make(chan error, 1)
		go func() { stopped <- unit.Stop() }()
		c := awaitServer(t, unit.next.attach(t), m, u.Slice())
		c.awaitScope()
		c.lives()
		c.client.Tell("exit")
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if result, err := unit.Await(patience); result != "success" || err != nil { // not "timeout"
			t.Errorf("the unit's result is %s, %v", result, err)
		}
		c.wantGone("unit stopped")
	})
}

// A request for a scope does not start the client's crashed unit again, though the scope is bound to it.
func TestScopeIsAskedForAfterTheCrash(t *testing.T) {
	u := host.Tester
	y := newEarlyYard(t, u)
	m := escape.NewMembers(t)
	server := zoo(u, "crashes-early", m, "ignore-both", "--term-grace", "1m")
	server = append([]string{"sh", "-c", `read -r go; exec "$@"`, "sh"}, server...)
	unit := startClientUnit(t, u, host.Service{User: u, Properties: []string{"KillMode=process"}}, server, append(run(u, "again"), programs.Zoo, "plain"))
	client := unit.first.attach(t)
	awake := y.stopManager(t)
	client.Tell("write go")
	c := awaitServer(t, client, m, u.Slice())
	if _, id := m.Main(); !escape.AwaitRequest(id) {
		t.Error("no helper asks for a scope")
	}
	client.Own.Signal(unix.SIGKILL)
	if !client.Own.Ended(patience) {
		t.Error("the client outlived SIGKILL")
	}
	awake()        // it reads of the crash before any request
	c.awaitScope() // or it was not asked, and this tests nothing
	m.Kill()
	c.wantGone("client crashed")
	if state, err := unit.Property("ActiveState"); state != "failed" || err != nil {
		t.Errorf("the unit is %s, %v", state, err)
	}
}

// A client in a system service with User= has its servers in the service's own group, although the manager of its user
// would make scopes: they end with the service.
func TestServersOfASystemServiceOfAUser(t *testing.T) {
	u := host.Tester
	for name, end := range map[string]func(*clientUnit) error{
		"stop":  func(u *clientUnit) error { return u.Stop() },
		"crash": func(u *clientUnit) error { return u.Crash() },
	} {
		t.Run(name, func(t *testing.T) {
			m := escape.NewMembers(t)
			service := host.Service{User: host.Root, Properties: []string{"User=tester"}}
			unit := startClientUnit(t, u, service, zoo(u, "other", m, "ignore-both"), append(run(u, "other"), programs.Zoo, "plain"))
			group, err := unit.Group()
			if err != nil {
				t.Fatal(err)
			}
			c := awaitServer(t, unit.first.attach(t), m, group)
			if err := end(unit); err != nil {
				t.Fatal(err)
			}
			c.wantGone(name)
		})
	}
}
