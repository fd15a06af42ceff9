// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) { bed.Beside(m.Run) }
