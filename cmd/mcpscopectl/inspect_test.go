// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "testing"

// A hint repeats no word that a shell would not take as it is.
func TestInspectMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"inspect":                       usage("inspect", "no server given: add a name or an id"),
		"inspect --json":                usage("inspect", "no server given: add a name or an id"),
		"inspect no-such-server":        failure(`inspect: there is no server "no-such-server"`, "mcpscope logs no-such-server, if it has ended"),
		"inspect --json no-such-server": failure(`inspect: there is no server "no-such-server"`, "mcpscope logs no-such-server, if it has ended"),
		"inspect $(reboot)":             failure(`inspect: there is no server "$(reboot)"`, ""),
	})
}
