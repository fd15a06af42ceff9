// SPDX-License-Identifier: Apache-2.0

package operate

import "testing"

// All are the tests that every backend has to pass, but for the long ones. The rest is in test/script.
func All(t *testing.T, s Subject) {
	t.Run("Figures", func(t *testing.T) { Figures(t, s) })
	t.Run("Keep", func(t *testing.T) { Keep(t, s) })
	t.Run("Freeze", func(t *testing.T) { Freeze(t, s) })
	t.Run("Listed", func(t *testing.T) { Listed(t, s) })
	t.Run("Stop", func(t *testing.T) { Stop(t, s) })
}
