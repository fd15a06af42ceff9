// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// The servers of a session are below its line, where the first of them would be. A session without a server is
// listed, too.
func TestSessionsInTable(t *testing.T) {
	server := func(id, name, session string) Server {
		return Server{Identity: Identity{ID: id, Name: name, State: fleet.Running, InSession: session}}
	}
	memory := uint64(600 << 20)
	used := Figures{
		Processes: 9, CPU: 72, Memory: &memory, MemoryFrom: fromGroup,
		Limits: map[string]string{"memory.max": "6442450944"},
	}
	sessions := []Server{
		{
			Identity: Identity{
				ID: "p4xw7nza", Name: "claude", Backend: names.SystemdUser, State: fleet.Frozen,
				Client: Process{2211, "claude"}, Origin: protocol.Origin{Project: "shop"},
			},
			Age: 7200, Figures: used, Servers: 2,
		},
		{Identity: Identity{ID: "zzzzzzzz", Name: "evil\x1b[31m", State: fleet.Running}},
	}
	servers := []Server{
		server("aaaaaaaa", "alone", ""), server("bbbbbbbb", "time", "p4xw7nza"),
		server("cccccccc", "other", ""), server("dddddddd", "git", "p4xw7nza"),
	}
	var out bytes.Buffer
	WriteServers(&out, servers, sessions, false)
	want := `ID NAME STATE AGE PROCS CPU MEMORY CLIENT PROJECT BACKEND
aaaaaaaa alone running 0.0s 0 0.0s - - -
p4xw7nza claude: 2 servers frozen 2h0m 9 1m12s 600M/6.0G claude[2211] shop systemd-user
bbbbbbbb time running 0.0s 0 0.0s - - -
dddddddd git running 0.0s 0 0.0s - - -
cccccccc other running 0.0s 0 0.0s - - -
zzzzzzzz evil?[31m: 0 servers running 0.0s 0 0.0s - - -
`
	var got strings.Builder
	for line := range strings.Lines(out.String()) {
		got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	if got.String() != want || !strings.Contains(out.String(), "  time") {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
