// SPDX-License-Identifier: Apache-2.0

package soak

import (
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
	return escape.BuildTemporary(func(dir string) map[string][]string {
		programs.Programs = escape.ProgramsIn(dir)
		programs.mcpscope, programs.crowd = filepath.Join(dir, "mcpscope"), filepath.Join(dir, "crowd")
		programs.probe = transparent.ProgramsIn(dir).Probe
		return transparent.Commands(map[string][]string{"crowd": escape.CC("crowd/crowd.c")})
	})
}
