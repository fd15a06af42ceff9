// SPDX-License-Identifier: Apache-2.0

// Package e2e tests mcpscope from outside, with the parts of test/escape.
//
// Each test has a world of its own, so that a sweep in one can't tidy up behind another.
package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// binaries are what the tests run, built once.
var binaries struct {
	escape.Programs
	mcpscope, withoutKill, probe, forger, seizer string
	transparent                                  transparent.Programs
}

func TestMain(m *testing.M) {
	bed.Parallel(64) // the tests wait more than they work; see escape.Slots for those that work
	bed.Main(m, build)
}

// build compiles outside the source tree: a test leaves no file in it.
func build() (func(), error) {
	dir, err := os.MkdirTemp("", "mcpscope-e2e.")
	if err != nil {
		return nil, err
	}
	cleanup := func() { _ = os.RemoveAll(dir) } // what is left is in the temporary directory
	binaries.Programs = escape.ProgramsIn(dir)
	binaries.mcpscope, binaries.withoutKill = filepath.Join(dir, "mcpscope"), filepath.Join(dir, "without-kill", "mcpscope")
	binaries.transparent = transparent.ProgramsIn(dir)
	binaries.probe, binaries.forger = binaries.transparent.Probe, filepath.Join(dir, "forger")
	binaries.seizer = filepath.Join(dir, "seizer")
	withoutKill := []string{"-ldflags", "-X github.com/mcpscope/mcpscope/cgroup.killFile=cgroup.kill.hidden", "../../cmd/mcpscope"}
	return cleanup, escape.Build(dir, transparent.Commands(map[string][]string{
		"mcpscope": escape.Go("../../cmd/mcpscope"), "mcpscopectl": escape.Go("../../cmd/mcpscopectl"), "forger": escape.Go("./forger"), "seizer": escape.CC("./seizer/seizer.c"),
		"without-kill/mcpscope":    escape.Go(withoutKill...),
		"without-kill/mcpscopectl": escape.Go(append(withoutKill[:2:2], "../../cmd/mcpscopectl")...),
	}))
}
