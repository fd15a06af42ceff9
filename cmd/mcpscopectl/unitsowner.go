// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/units"
)

// goal is the goal of a call for a gateway.
func (u *unitsCall) goal() string {
	if u.remove {
		return "remove the drop-in of " + u.unit
	}
	return "run " + u.unit + " below mcpscope"
}

// checkOwner returns an error for a service that only root may change, with the call that does so.
func (u *unitsCall) checkOwner() error {
	name, err := units.ParseServiceName(u.unit)
	if err != nil {
		return nil // it is reported later
	}
	return remedy.With(units.CheckOwner(name), u.withSudo())
}

// withSudo spells a call as root would make it.
func (u *unitsCall) withSudo() string {
	words := []string{"sudo mcpscope units --unit", cli.Word(u.unit)}
	for _, flag := range []struct {
		name    string
		isGiven bool
	}{{"--install", u.install}, {"--remove", u.remove}, {"--now", u.now}} {
		if flag.isGiven {
			words = append(words, flag.name)
		}
	}
	if len(u.gatewayFlags) > 0 {
		words = append(words, units.PrintFlags(u.gatewayFlags))
	}
	return strings.Join(words, " ")
}
