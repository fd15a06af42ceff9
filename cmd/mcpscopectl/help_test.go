// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// The help of run and gateway is that of the runner. There is no help for a hidden command.
func TestHelp(t *testing.T) {
	for topic, want := range map[string]said{
		"run":     {status: cli.ExitOK, out: settings.Help(settings.Run)},
		"gateway": {status: cli.ExitOK, out: settings.Help(settings.Gateway)},
		"man":     {status: cli.ExitUsage, err: "mcpscope: help: unknown command \"man\"\nmcpscope: hint: mcpscope help\n"},
		"ls all":  {status: cli.ExitUsage, err: "mcpscope: help: unknown command \"ls\"\nmcpscope: hint: mcpscope help\n"},
	} {
		if s := say(append([]string{"help"}, strings.Fields(topic)...)...); s != want {
			t.Errorf("%s: %+v\nwant %+v", topic, s, want)
		}
	}
	// Behind the command, help has a flag more: itself.
	s := say("help", "ls")
	if s.status != cli.ExitOK || !strings.HasPrefix(say("ls", "--help").out, s.out) {
		t.Errorf("ls: %+v", s)
	}
}
