// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
)

// A watcher gets the servers that have a command and are not wrapped, as JSON.
func TestConfigured(t *testing.T) {
	u := newUser(t)
	u.write(u.config, `{"mcpServers": {"time": {"command": "uvx", "args": ["x"], "env": {"A": "b"}}, "remote": {"url": "https://x"},
		"old": {"command": "`+u.program+`", "args": ["run", "--", "uvx"]}}}`)
	s := say(gateway.ConfiguredCommand, u.config)
	var got []gateway.Configured
	if err := json.Unmarshal([]byte(s.out), &got); err != nil || s.status != cli.ExitOK || s.err != "" {
		t.Fatalf("%+v: %v", s, err)
	}
	if len(got) != 1 || got[0].Name != "time" || got[0].Client != "cursor" || got[0].File != u.config || got[0].Env["A"] != "b" {
		t.Errorf("%+v", got)
	}
	found, err := readConfigured([]string{u.config})
	if err != nil || len(found.bare) != 1 || len(found.wrapped) != 1 || found.wrapped[0].Name != "old" {
		t.Errorf("%+v, %v", found, err)
	}
	u.write(u.config, "{}")
	if s := say(gateway.ConfiguredCommand, u.config); s != (said{out: "[]\n"}) {
		t.Errorf("no server: %+v", s)
	}
}

// A file that was named has to be readable. Without names, every file may be anything.
func TestConfiguredFailures(t *testing.T) {
	u := newUser(t)
	u.write(u.config, "{")
	want := said{status: cli.ExitFailure, err: u.config + ": line 1, column 1: not valid JSON: this { is never closed\n"}
	if s := say(gateway.ConfiguredCommand, "cursor"); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if s := say(gateway.ConfiguredCommand); s.status != cli.ExitOK || s.err != "" {
		t.Errorf("without names: %+v", s)
	}
	missing := filepath.Join(u.home, "none.json")
	s := say(gateway.ConfiguredCommand, missing)
	if s.status != cli.ExitFailure || s.out != "" || !strings.Contains(s.err, missing) {
		t.Errorf("%+v", s)
	}
	// The other files count, so that a check can print their servers.
	other := filepath.Join(u.home, "other.json")
	u.write(other, cursor)
	found, err := readConfigured([]string{u.config, other})
	if err == nil || len(found.bare) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}
