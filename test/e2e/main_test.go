// SPDX-License-Identifier: Apache-2.0

// Package e2e tests mcpscope from outside, with the parts of test/escape.
//
// Each test has a world of its own, so that a sweep in one can't tidy up behind another.
package e2e

import (
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// binaries has the programs that the tests run, built once.
var binaries struct {
	escape.Programs
	mcpscope, probe, forger, seizer, agent, waiter string
	transparent                                    transparent.Programs
}

func TestMain(m *testing.M) {
	escape.Choose(m, "e2e")
	bed.Parallel(8) // the tests wait more than they work; see escape.Slots for those that work
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		binaries.Programs = escape.ProgramsIn(dir)
		binaries.mcpscope = filepath.Join(dir, "mcpscope")
		binaries.transparent = transparent.ProgramsIn(dir)
		binaries.probe = binaries.transparent.Probe
		binaries.forger = filepath.Join(dir, "forger")
		binaries.seizer = filepath.Join(dir, "seizer")
		binaries.agent = filepath.Join(dir, "agent")
		binaries.waiter = filepath.Join(dir, "waiter")
		return transparent.Commands(map[string][]string{
			"forger": escape.Go("./forger"), "agent": escape.Go("./agent"), "waiter": escape.Go("./waiter"), "seizer": escape.CC("./seizer/seizer.c"),
		})
	}))
}
