// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// Names are others' bytes, and come back as they were.
func TestTreeFactsComeBack(t *testing.T) {
	policy := protocol.DefaultPolicy()
	policy.MaxLifetime = time.Hour
	for _, f := range []treeFacts{
		{Policy: protocol.DefaultPolicy(), Started: time.Unix(0, 0).UTC()},
		{Version: 1, ID: "abcdefgh", Name: "a\nb=\"c\" \xff", Supervisor: 7, Launcher: "1 2", Started: time.Unix(1700000000, 5).UTC(), Policy: policy,
			Client: protocol.ClientFacts{PID: 9, Start: 10, Name: "its\n name=", Unit: "u.service"}},
	} {
		if got, err := parseTreeFacts(f.String()); err != nil || got != f {
			t.Errorf("%+v, %v, want %+v", got, err, f)
		}
	}
	if f, err := parseTreeFacts(treeFacts{ID: "x", Policy: policy}.String() + "later={}\n"); err != nil || f.ID != "x" {
		t.Errorf("what another version says: %+v, %v", f, err)
	}
	for _, text := range []string{"", "{}", "id=x", "version=\"1\"\n"} {
		if f, err := parseTreeFacts(text); err == nil {
			t.Errorf("%q is %+v", text, f)
		}
	}
}
