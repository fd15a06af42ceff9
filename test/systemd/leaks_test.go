// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// leak is the part of `sweep --json` that the tests read.
type leak struct {
	Server  struct{ State, Name string }
	PID     int
	Parent  struct{ PID int }
	Stopped *bool
}

// leaksOf asks as a user whether a process is a leak.
func leaksOf(t *testing.T, u host.User, pid int, more ...string) (found []leak) {
	t.Helper()
	line := append([]string{mcpscope, "sweep", "--older-than", "0", "--json"}, more...)
	for text := range strings.Lines(host.Must(t, host.Current(t).Command(u, line...))) {
		var l leak
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if l.Server.State == "leak" && l.PID == pid {
			found = append(found, l)
		}
	}
	return found
}

// startConfigured starts a server without mcpscope, and then puts it into a configuration of the user.
func startConfigured(t *testing.T, u host.User) (m *escape.Members, client *escape.Client) {
	t.Helper()
	m = escape.NewMembers(t)
	t.Cleanup(m.Kill)
	argv := []string{programs.Zoo, "--register", m.Address, "ignore-both"}
	unit := startClientUnit(t, u, host.Service{User: u, Properties: []string{"KillMode=process"}}, argv, nil)
	client = unit.first.attach(t)
	if err := m.UntilReady(patience); err != nil {
		t.Fatal(err)
	}
	placeServer(t, u, argv)
	return m, client
}

// placeServer puts a server into a configuration of the user.
func placeServer(t *testing.T, u host.User, argv []string) {
	t.Helper()
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"zoo": map[string]any{"command": argv[0], "args": argv[1:]},
	}})
	if err != nil {
		t.Fatal(err)
	}
	place(t, u, u.Home+"/.claude.json", string(config))
}

// A server whose client was killed is listed, and stopped with all that it has started; it is not as long as its client
// lives, nor to another user. In a unit of the user's manager that manager adopts it.
func TestLeaks(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		m, client := startConfigured(t, u)
		main, _ := m.Main()
		if found := leaksOf(t, u, main.PID); len(found) > 0 {
			t.Errorf("its client lives: %+v", found)
		}
		client.Own.Signal(unix.SIGKILL)
		if !client.Own.Ended(patience) {
			t.Error("the client outlived SIGKILL")
		}
		manager, err := escape.ParentOf(main.PID)
		if found := leaksOf(t, u, main.PID); err != nil || len(found) != 1 || found[0].Server.Name != "zoo" || found[0].Parent.PID != manager {
			t.Errorf("its client is dead: %+v, want %d below %d, %v", found, main.PID, manager, err)
		}
		if u == host.Root {
			if found := leaksOf(t, host.Tester, main.PID); len(found) > 0 {
				t.Errorf("it is another user's: %+v", found)
			}
		}
		if found := leaksOf(t, u, main.PID, "--yes"); len(found) != 1 || found[0].Stopped == nil || !*found[0].Stopped {
			t.Errorf("stopped: %+v", found)
		}
		m.WantDead(t)
	})
}
