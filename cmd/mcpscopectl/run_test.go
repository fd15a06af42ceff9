// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// run and gateway become the runner. If that fails, the status is that of mcpscope itself.
func TestRunWithoutARunner(t *testing.T) {
	for text, want := range map[string]string{
		"":           "mcpscope is not installed: there is no ",
		"no program": "exec format error\n",
	} {
		t.Run(want, func(t *testing.T) {
			replaceRunner(t, text)
			for _, name := range []string{"run", "gateway"} {
				s := say(name, "--", "true")
				begin := "mcpscope: cannot " + name + ": " + want
				if s.status != cli.ExitOwnFailure || s.out != "" || !strings.HasPrefix(s.err, begin) {
					t.Errorf("%+v, want %s", s, begin)
				}
			}
		})
	}
}
