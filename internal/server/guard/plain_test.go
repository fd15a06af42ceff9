// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// The names of a plain run are those of every other one, which this package cannot import: its code runs without a heap.
func TestPlainNames(t *testing.T) {
	if idLetters != names.IDLetters || idLength != names.IDLength {
		t.Errorf("ids have %d of %q, and in package names %d of %q", idLength, idLetters, names.IDLength, names.IDLetters)
	}
}
