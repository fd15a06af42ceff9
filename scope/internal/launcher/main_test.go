// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// heldEnv has a copy of the test act as a supervisor that is told of no group.
const heldEnv = "MCPSCOPE_TEST_HELD"

func TestMain(m *testing.M) {
	if os.Getenv(heldEnv) != "" {
		_ = unix.Pause()
		return
	}
	bed.Main(m)
}
