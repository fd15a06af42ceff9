// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"slices"
	"strings"
	"testing"
	"time"

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
