// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

var programs struct {
	escape.Programs
	mcpscope, probe, crowd string
}

func TestMain(m *testing.M) {
	bed.Parallel(lanes)
	bed.Main(m, build)
}

func build() (func(), error) {
	dir, err := os.MkdirTemp("", "mcpscope-soak.")
	if err != nil {
		return nil, err
	}
	cleanup := func() { _ = os.RemoveAll(dir) } // what is left is in the temporary directory
	programs.Programs = escape.ProgramsIn(dir)
	programs.mcpscope, programs.crowd = filepath.Join(dir, "mcpscope"), filepath.Join(dir, "crowd")
	programs.probe = transparent.ProgramsIn(dir).Probe
	return cleanup, escape.Build(dir, transparent.Commands(map[string][]string{
		"mcpscope": escape.Go("../../cmd/mcpscope"), "mcpscopectl": escape.Go("../../cmd/mcpscopectl"),
		"crowd": escape.CC("crowd/crowd.c"),
	}))
}
