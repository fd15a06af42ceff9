// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func someViews() []Server {
	memory, peak, sum := uint64(52_428_800), uint64(104_857_600), uint64(3<<20)
	started := time.Date(2026, 11, 20, 8, 0, 0, 500_000_000, time.UTC)
	return []Server{
		{
			Identity: Identity{
				ID: "k3x9w2ab", Name: "time", Backend: names.SystemdUser, State: fleet.Running,
				Client: Process{4711, "hermes"}, Origin: protocol.Origin{Project: "shop"},
			},
			Age: 3725, Started: &started,
			Figures: Figures{Processes: 3, CPU: 1.25, Memory: &memory, Peak: &peak, MemoryFrom: fromGroup},
		},
		{
			Identity: Identity{
				ID: "p0vv3khv", Name: "evil\x1b[31m\n\"\\", UID: 1000, Backend: names.Tree, State: fleet.Orphaned,
				Client: Process{12, "\xff"},
			},
			Age:     200000,
			Figures: Figures{Processes: 1, Memory: &sum, MemoryFrom: FromMembers},
		},
		{Identity: Identity{
			ID: "zzzzzzzz", Name: "zombie", Backend: names.Cgroup, State: fleet.Terminating, Client: Process{12, "x"},
		}},
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	WriteServers(&out, someViews(), nil, true)
	want := `ID        NAME            STATE    AGE    PROCS  CPU   MEMORY  CLIENT        PROJECT  BACKEND       UID
k3x9w2ab  time            running  1h2m   3      1.2s  50M     hermes[4711]  shop     systemd-user  0
p0vv3khv  evil?[31m?"\  orphan   2d7h   1      0.0s  ~3.0M   ` + "\ufffd" + `[12]         -        tree          1000
zzzzzzzz  zombie          terminating   0.0s   0      0.0s  -       x[12]         -        cgroup        0
`
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if squeeze(out.String()) != squeeze(want) || strings.HasSuffix(out.String(), "\n\n") {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if WriteServers(&out, nil, nil, false); out.Len() > 0 {
		t.Errorf("of no servers: %q", out.String())
	}
}

// A client that keeps servers it does not use sees what they would cost.
func TestSavings(t *testing.T) {
	since, now := time.Unix(0, 0), uint64(1<<20)
	view := func(client int, name string, state fleet.State, before uint64) Server {
		v := Server{
			Identity: Identity{Name: name, State: state, Client: Process{client, "agent\x1b"}},
			Figures:  Figures{Memory: &now, Before: before},
		}
		if state == fleet.Idle {
			v.IdleSince = &since
		}
		return v
	}
	views := []Server{view(1, "a", fleet.Idle, 70<<20), view(2, "a", fleet.Running, 0), view(1, "a", fleet.Idle, 70<<20), view(1, "b", fleet.Running, 50<<20), view(3, "c", fleet.Idle, 0)}
	got := strings.Join(savings(views), "\n")
	if want := "agent?[1]: 2 of 3 servers idle, copies of 2: 138M saved\nagent?[3]: 1 of 1 server idle"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if text := MemoryText(views[0]); text != "1.0M (70M)" {
		t.Errorf("memory is %s", text)
	}
}

// The client of the first process of a container is outside, and has no pid there.
func TestProcessText(t *testing.T) {
	for want, p := range map[string]Process{"claude[7]": {7, "claude"}, "-": {}, "claude": {0, "claude"}} {
		if got := p.Text(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
