// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A client that drains may start a server. Bound to the unit that stops, its scope would
// wait for the stop, which waits for the drain, or cancel it.
func TestServerStartedWhileItsClientsUnitStops(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		m := escape.NewMembers(t)
		late := zoo("late", m, "ignore-both")
		late = slices.Insert(late, 2, "--backend", backendOf(u)) // else it could be in a group below the unit's own
		drain := `mkfifo "$RUNTIME_DIRECTORY/in" "$RUNTIME_DIRECTORY/out"; ` + strings.Join(late, " ") +
			` <"$RUNTIME_DIRECTORY/in" >"$RUNTIME_DIRECTORY/out" & sleep 1000 >"$RUNTIME_DIRECTORY/in" & ` + // which holds it open
			`exec 4<"$RUNTIME_DIRECTORY/out"; echo last >"$RUNTIME_DIRECTORY/in"; read -r answer <&4; echo "$answer" >"$RUNTIME_DIRECTORY/drained"`
		unit := h.Start(t, host.Service{User: u, Argv: []string{"sleep", "1000"}, Properties: []string{
			"RuntimeDirectory=late", "RuntimeDirectoryPreserve=yes", "TimeoutStopSec=20s", "ExecStop=/bin/sh -c '" + strings.ReplaceAll(drain, "$", "$$") + "'",
		}})
		start := time.Now()
		if err := unit.Stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if result, err := unit.Await(patience); result != "success" || err != nil {
			t.Errorf("the unit's result is %s, %v", result, err)
		}
		wantText(t, runtimeFile(u, "late", "drained"), "last\n")
		if m.Count() == 0 {
			t.Error("no server was started: then this tests nothing")
		}
		if n := m.UntilDead(patience); n > 0 {
			t.Errorf("%d members left: %q", n, m.Survivors())
		}
		_, id := m.Main()
		gone(t, u.Slice()+"/mcp-late-"+id+".scope")
	})
}

// A manager that is asked for a scope when the client's unit has crashed does not start that unit again, though the scope is bound to it.
func TestScopeIsAskedForAfterTheCrash(t *testing.T) {
	h := host.Current(t)
	u := host.Tester
	y := newEarlyYard(t, u)
	m := escape.NewMembers(t)
	starts, word := sharedFile(t, u), sharedFile(t, u)+".fifo"
	if err := unix.Mkfifo(word, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(word) }) // with the host, at the latest
	if err := os.Chown(word, u.UID, u.UID); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(word, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	server := []string{mcpscope, "run", "--name", "crashes", "--eof-grace", "100ms", "--term-grace", "3s", "--", programs.Zoo, "--register", m.Address, "ignore-both"}
	script := fmt.Sprintf("echo started >>%s; exec 5<>%s; read -r word <&5; %s <&5; exit 1", starts, word, strings.Join(server, " "))
	unit := h.Start(t, host.Service{User: u, Properties: []string{"KillMode=process"}, Argv: []string{"sh", "-c", script}})
	awaitFile(t, starts)
	pid, err := unit.MainPID()
	if err != nil {
		t.Fatal(err)
	}
	shell, err := escape.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	awake := y.stopManager(t)
	if _, err := fifo.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	if err := m.UntilReady(patience); err != nil {
		t.Fatal(err)
	}
	_, id := m.Main()
	found := escape.Servers(u.Slice(), "crashes", id+".scope")
	if len(found) != 1 {
		t.Fatalf("%d groups of the server", len(found))
	}
	shell.Signal(unix.SIGKILL)
	awake() // it hears of the crash before it reads any request
	if err := escape.AwaitScope(found[0], patience); err != nil {
		t.Errorf("the manager was not asked: %v: then this tests nothing", err)
	}
	if n := m.UntilDead(patience); n > 0 {
		t.Errorf("%d members left: %q", n, m.Survivors())
	}
	gone(t, found[0])
	if state, err := unit.Property("ActiveState"); state != "failed" || err != nil {
		t.Errorf("the unit is %s, %v", state, err)
	}
	wantText(t, starts, "started\n")
}
