// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "testing"

func TestFreezeAndThawMistakes(t *testing.T) {
	for _, verb := range []string{"freeze", "thaw"} {
		checkSaid(t, map[string]said{
			verb:                     usage(verb, "no server given: add a name or an id"),
			verb + " no-such-server": failure(verb+`: there is no server "no-such-server"`, ""),
		})
	}
}
