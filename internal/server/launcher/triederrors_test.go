// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// In a login session raw code has planned the start that failed: main asks the manager, which may hang, no second time.
func TestTriedByRawCode(t *testing.T) {
	on, errno := page.New()
	if errno != 0 {
		t.Fatal(errno)
	}
	defer on.Close()
	on.Plan.Failed.Step = page.StepScope
	tellScopeError(&on.Plan.Failed, systemd.ErrRefused)
	tried, err := Tried(on)
	if err != nil || len(tried) != 1 || !errors.Is(tried[0], systemd.ErrRefused) {
		t.Errorf("tried: %v, %v", tried, err)
	}
	given := []string{"server", "-x"}
	if command, err := CommandOn(on, given); err != nil || !slices.Equal(command, given) {
		t.Errorf("the command: %q, %v", command, err)
	}
}
