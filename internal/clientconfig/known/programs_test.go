// SPDX-License-Identifier: Apache-2.0

package known

import (
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/name"
)

// The client of a program is one of the table.
func TestClientPrograms(t *testing.T) {
	for program, client := range name.ClientPrograms() {
		isIt := func(c Client) bool { return c.ID == client }
		if !slices.ContainsFunc(All(), isIt) {
			t.Errorf("%s: %q is no client", program, client)
		}
		isProgram := func(c Client) bool { return c.ID == program }
		if slices.ContainsFunc(All(), isProgram) {
			t.Errorf("%s is a client itself", program)
		}
	}
}
