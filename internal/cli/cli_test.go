// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func TestOneLine(t *testing.T) {
	if got := OneLine("a\nb\x1b[31m\u0085ü\u202eb\u200bc\xff"); got != "a?b?[31m?ü?b?c\ufffd" {
		t.Errorf("%q", got)
	}
}

// Graces of any length make no bound that is over at once.
func TestLongGraces(t *testing.T) {
	long, err := ParseGrace("60000d")
	c := &protocol.Config{Facts: protocol.Facts{Policy: policy.Policy{TermGrace: long}, Engine: "podman"}}
	if err != nil || long < 60*365*24*time.Hour || protocol.EndWithin(c) < long {
		t.Errorf("%v, %v: %v for the end", long, err, protocol.EndWithin(c))
	}
}

func TestParseGrace(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1.2s": 1200 * time.Millisecond, "500ms": 500 * time.Millisecond, "1h": time.Hour, "infinity": freeze.Forever,
		"1d": 24 * time.Hour, "2d12h": 60 * time.Hour, "0d": 0,
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
