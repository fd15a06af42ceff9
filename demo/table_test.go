// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	leaky, clean := scenario{leaks: true}, scenario{}
	left := outcome{left: []string{"node"}, bytes: 70_000_000}
	for name, c := range map[string]struct {
		scenario        scenario
		bare, contained outcome
		want            string
	}{
		"as promised":            {leaky, left, outcome{}, ""},
		"nothing leaks, rightly": {clean, outcome{}, outcome{}, ""},
		"left with mcpscope":     {leaky, left, left, "1 processes were left with mcpscope"},
		"no leak to show":        {leaky, outcome{}, outcome{}, "no leak to compare with"},
	} {
		var sum totals
		sum.add(c.scenario, c.bare, c.contained)
		err := sum.verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestNoColourButOnATerminal(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "table")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	table := newTable(out)
	table.head()
	table.row(scenarios[0], outcome{left: []string{"node"}}, outcome{})
	text, err := os.ReadFile(out.Name())
	if err != nil || bytes.ContainsRune(text, '\x1b') || !bytes.Contains(text, []byte("1 left")) {
		t.Errorf("got %q, %v", text, err)
	}
}
