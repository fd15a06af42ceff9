// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hostinfo

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }
