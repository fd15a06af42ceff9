// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/mcpscope/mcpscope/scope/internal/backend"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// Why a backend is not available is a note where it would have been the better one.
func TestNotesOnTheBackend(t *testing.T) {
	s := &Server{Backend: protocol.Auto, Slice: protocol.DefaultSlice, Notes: []string{"of the configuration"}}
	best := backend.Candidates()[0]
	missed := []error{&missedError{best, errors.New("no manager")}, &missedError{protocol.Tree, errors.New("no /proc")}, fmt.Errorf("find our cgroup: %w", os.ErrNotExist)}
	for taken, want := range map[protocol.Backend][]string{
		protocol.Cgroup: {"of the configuration", "not available: " + string(best) + ": no manager", "not available: find our cgroup: file does not exist"},
		best:            {"of the configuration", "not available: " + string(best) + ": no manager", "not available: find our cgroup: file does not exist"},
	} {
		if got := s.notesOn(taken, missed); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", taken, got, want)
		}
	}
}
