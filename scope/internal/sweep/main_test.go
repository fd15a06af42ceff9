// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/test/bed"
)

// briefEnv has a copy of the test act as a server that ends at once: it sweeps this directory.
const briefEnv = "MCPSCOPE_TEST_BRIEF"

func TestMain(m *testing.M) {
	dir := os.Getenv(briefEnv)
	if dir == "" {
		bed.Main(m)
		return
	}
	parent, err := cgroup.Open(dir)
	if err != nil {
		panic(err)
	}
	BeginSweep(parent, "")()
}
