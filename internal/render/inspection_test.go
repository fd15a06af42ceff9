// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/figures"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func TestInspectionText(t *testing.T) {
	started := time.Date(2026, 11, 20, 8, 0, 0, 0, time.Local)
	idle := started.Add(time.Hour)
	memory := uint64(50 << 20)
	peak := uint64(100 << 20)
	throttled := 1.5
	swapped := uint64(1 << 20)
	server := Server{
		Identity: Identity{
			ID: "k3x9w2ab", Name: "time\n", Backend: names.SystemdUser, State: fleet.Idle, Cause: causes.StdinClosed,
			Group: "/a/b", Unit: "mcp.scope", Client: Process{PID: 7, Name: "hermes"}, ClientUnit: "hermes.service",
			Origin: protocol.Origin{Project: "shop", Conversation: "s1"},
		},
		Launcher: 8, Guard: 9, Started: &started, Age: 3725, Policy: "term-grace 1s",
		Figures: Figures{
			CPU: 1.25, Memory: &memory, Peak: &peak, MemoryFrom: fromScope, IdleSince: &idle, Wakes: 3,
			Limits: map[string]string{"pids.max": "9", "memory.max": "104857600"}, OOMKills: 1, PIDsRefused: 2,
		},
	}
	full := Inspection{
		Server:      server,
		Ancestry:    []Process{{PID: 7, Name: "hermes"}, {PID: 1, Name: "init"}},
		Tree:        []fleet.Member{{PID: 10, Depth: 0, Memory: 2048, Command: "node\x1b"}, {PID: 11, Depth: 1, Command: "sh"}},
		Stdio:       map[string]string{"stdin": "pipe:[1]"},
		HeldBy:      []Process{{PID: 12, Name: "a"}, {PID: 13, Name: "b"}},
		CPUTime:     &figures.CPU{System: 0.5, Throttled: &throttled},
		MemoryParts: &figures.Memory{Anonymous: 1 << 20, Files: 2 << 20, Kernel: 3 << 20, Swapped: &swapped},
		Notes:       []string{"a note"},
	}
	least := Inspection{Server: Server{Identity: Identity{ID: "zzzzzzzz", Name: "old", Client: Process{PID: 7, Name: "hermes"}}}}
	var out bytes.Buffer
	WriteInspections(&out, []Inspection{full, least}, nil)
	want := `name             time? (k3x9w2ab)
state            idle, stdin-closed
idle             since 2026-11-20 09:00:00, woken 3 times
backend          systemd-user, mcp.scope
group            /a/b
client's unit    hermes.service
client           hermes[7] ← init[1]
stdin held by    a[12], b[13]
project          shop
conversation     s1
started          2026-11-20 08:00:00, 1h2m ago
policy           term-grace 1s
note             a note
launcher, guard  8, 9
CPU              1.2s, 0.5s of it in the kernel; its limit held it up for 1.5s
memory           50M/100M, at most 100M, with that of guard and helper
memory parts     1.0M anonymous, 2.0M files, 3.0M kernel, and 1.0M in swap
limit            memory.max=104857600
limit            pids.max=9
out of memory    the kernel killed 1
could not fork   2 times
stdin            pipe:[1]
  10 2.0K node?
    11 0B sh

name             old (zzzzzzzz)
client           hermes[7], which has ended
policy
launcher, guard  0, 0
CPU              0.0s
`
	got := out.String()
	got = strings.ReplaceAll(got, "policy           \n", "policy\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The sum over processes stands in where the kernel counts nothing for the group.
func TestFiguresOf(t *testing.T) {
	some, nothing := uint64(4096), uint64(0)
	self := []int{os.Getpid()}
	for name, c := range map[string]struct {
		used fleet.Usage
		want memorySource
	}{
		"of the group":          {fleet.Usage{Memory: &some}, fromGroup},
		"of the scope":          {fleet.Usage{Memory: &some, WithGuard: true}, fromScope},
		"of its processes":      {fleet.Usage{PIDs: self}, FromMembers},
		"of its processes, too": {fleet.Usage{PIDs: self, Memory: &nothing}, FromMembers},
		"of a zombie":           {fleet.Usage{Memory: &nothing}, ""},
	} {
		f := figuresOf(c.used)
		hasMemory := f.Memory != nil && *f.Memory > 0
		if f.MemoryFrom != c.want || hasMemory != (c.want != "") || f.Processes != len(c.used.PIDs) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestHeldLine(t *testing.T) {
	var servers []*fleet.Listed
	for _, id := range strings.Fields("a b c d e f g h i") {
		s := &fleet.Listed{}
		s.Placed.ID = id
		s.Facts.Client.Name = "hermes"
		servers = append(servers, s)
	}
	servers[8].Facts.Client.Name = "claude"
	want := "9 servers left by hermes, claude, which has ended: tee[5] still holds the stdin (mcpscope stop a b c d e f g h)"
	if got := heldLine("tee[5]", servers); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := HeldLines(nil); got != nil {
		t.Errorf("of no servers: %q", got)
	}
}

// JSON has no character that a terminal acts on, and stays the same text.
func TestJSONIsSafe(t *testing.T) {
	names := []string{"a\x1b[31m\u0085\u202e<b>\u200b\n"}
	out, err := JSON(ListOf(names), "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"version\": 1,\n  \"servers\": [\n    \"a\\u001b[31m\\u0085\\u202e<b>\u200b\\n\"\n  ]\n}\n"
	if string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
	var object struct{ Servers []string }
	if err := json.Unmarshal(out, &object); err != nil || object.Servers[0] != names[0] {
		t.Errorf("%q (%v), want %q", object.Servers, err, names)
	}
	out, err = JSON(ListOf[string](nil), "  ")
	if err != nil || !strings.Contains(string(out), `"servers": []`) {
		t.Errorf("no server: %q (%v)", out, err)
	}
	if _, err := JSON(func() {}, ""); err == nil {
		t.Error("a function is JSON")
	}
}
