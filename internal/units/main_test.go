// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

func TestMain(m *testing.M) {
	if unprivileged.Inside() {
		os.Exit(m.Run())
	}
	bed.Beside(m.Run)
}
