// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
)

func TestParseGrace(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1.2s": 1200 * time.Millisecond, "500ms": 500 * time.Millisecond, "1h": time.Hour, "infinity": freeze.Forever,
		"1d": 24 * time.Hour, "1.5d": 36 * time.Hour, "2d12h": 60 * time.Hour, "0d": 0,
	} {
		if got, err := ParseGrace(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "-1s", "soon", "1e9s", "inf", "9999999999h", "1s ", "d", "1dd", "1hd", "-1d", "1d-1h", "99999999d", "1d1", "infinityd", "1 d"} {
		if got, err := ParseGrace(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// The whole ladder is over before the clients that kill after closing stdin do.
func TestDefaultsAreWithinTheClientsPatience(t *testing.T) {
	p := DefaultPolicy()
	if sum := p.EOFGrace + p.TermGrace; sum >= 3*time.Second || p.EOFGrace < time.Second {
		t.Errorf("%v and %v: rmcp kills at 3 s, and answers may take 1 s", p.EOFGrace, p.TermGrace)
	}
}
