// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import "testing"

func TestOneLine(t *testing.T) {
	if got := OneLine("a\nb\x1b[31m\u0085ü"); got != "a?b?[31m?ü" {
		t.Errorf("%q", got)
	}
}
