//go:build linux

package scope

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// Why a backend is not available is a note where it would have been the better one.
func TestNotesOnTheBackend(t *testing.T) {
	s := &Server{Backend: Auto, Slice: DefaultSlice, Notes: []string{"of the configuration"}}
	best := candidatesFor(os.Getuid())[0]
	missed := []error{&missedError{best, errors.New("no manager")}, &missedError{Tree, errors.New("no /proc")}, fmt.Errorf("find our cgroup: %w", os.ErrNotExist)}
	for taken, want := range map[Backend][]string{
		Cgroup: {"of the configuration", "not available: " + string(best) + ": no manager", "not available: find our cgroup: file does not exist"},
		best:   {"of the configuration", "not available: " + string(best) + ": no manager", "not available: find our cgroup: file does not exist"},
	} {
		if got := s.notesOn(taken, missed); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", taken, got, want)
		}
	}
}
