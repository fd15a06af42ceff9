// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"testing"
)

// A trial ends with the line about its server, or with a complaint of the gateway.
func TestGatewayTrialReads(t *testing.T) {
	const probe = `{"cgroup":"/mcp.slice/0/mcp-x/payload","controllers":["memory"]}`
	for _, c := range []struct{ text, want string }{
		{probe + "\n2026-12-01T10:00:00Z 7 \"mcpscope-probe\" taken as hxvqmwb5 (systemd-user): match \"mcpscope-probe\"",
			"systemd-user [memory]  [] true true"},
		{probe + "\n2026-12-01T10:00:00Z 7 \"mcpscope-probe\" taken as hxvqmwb5 (cgroup): match \"mcpscope-probe\"\n" +
			"mcpscope: cannot start a server: signal: terminated", "cgroup [memory]  [] true true"},
		{"2026-12-01T10:00:00Z 7 \"mcpscope-probe\" left: it can't be contained: no room", " [] no room [] false true"},
		{"2026-12-01T10:00:00Z 7 \"mcpscope-probe\" left: the gateway has ended", " [] the gateway has ended [] false true"},
		{"2026-12-01T10:00:00Z 7 ? note: cannot read configurations: x", " []  [] false false"},
		{"mcpscope: note: cannot read configurations: x", " []  [] false false"},
		{"mcpscope: cannot contain the servers of \"/a: b\": no backend works here: a: b\nmcpscope: hint: do it",
			" [] no backend works here: a: b [do it] false false"},
		{"mcpscope: cannot run \"/a\": permission denied", " [] cannot run \"/a\": permission denied [] false false"},
		{"", " []  [] false false"},
	} {
		var trial GatewayTrial
		for _, line := range strings.Split(c.text, "\n") {
			trial.read(line)
		}
		got := fmt.Sprint(trial.Backend, " ", trial.Controllers, " ", trial.Reason, " ", trial.Remedies, " ", trial.isPlaced, trial.isDecided)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}
