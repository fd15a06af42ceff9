// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// The most that there may be. Each one more is one more to choose from, to document and to test.
const (
	commandsMost       = 17
	flagsMost          = 75 // of all commands, without --help
	flagsOfRunMost     = 21
	flagsOfGatewayMost = 16
	flagsOfOtherMost   = 16
)

// byCobra are commands that the library brings, and version, which --version is too.
var byCobra = []string{"help", "version", "completion"}

// Both programs have few commands and few flags.
func TestBounds(t *testing.T) {
	commands, all := 0, 0
	for _, c := range newRoot(cli.Stdio{}).Commands() {
		if c.Hidden || slices.Contains(byCobra, c.Name()) {
			continue
		}
		commands++
		flags, most := 0, flagsOfOtherMost
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				flags++
			}
		})
		switch c.Name() {
		case "run":
			most = flagsOfRunMost
		case "gateway":
			most = flagsOfGatewayMost
		}
		if flags > most {
			t.Errorf("%s has %d flags, more than %d", c.Name(), flags, most)
		}
		t.Logf("%s: %d", c.Name(), flags)
		all += flags
	}
	if commands > commandsMost {
		t.Errorf("there are %d commands, more than %d", commands, commandsMost)
	}
	if all > flagsMost {
		t.Errorf("there are %d flags, more than %d", all, flagsMost)
	}
	t.Logf("%d commands, %d flags", commands, all)
}
