// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Without a cgroup there is no backend to be tried, and the error names what could not be found.
func TestErrorWithoutACgroup(t *testing.T) {
	const none = 1 << 30 // more than any pid
	s := &Server{Places: Places{Backend: names.Cgroup}, Gateway: OfGateway{Beside: none}}
	err := s.eachPlace(func(backend.Place, []error) error {
		t.Error("there is a place")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "find our cgroup: ") {
		t.Errorf("the error is %v, and does not name the cgroup", err)
	}
}

// The only backend needs no name, and several have one each.
func TestErrorNamesBackends(t *testing.T) {
	refuse := func(backend.Place, []error) error { return unix.EPERM }
	err := (&Server{Places: Places{Backend: names.Tree}}).eachPlace(refuse)
	if err != unix.EPERM {
		t.Errorf("the error of the only backend is %v, want %v", err, unix.EPERM)
	}
	err = (&Server{Places: Places{Backend: names.Auto}}).eachPlace(refuse)
	if !errors.Is(err, backend.ErrNoBackend) || !strings.Contains(err.Error(), "tree: ") {
		t.Errorf("the error of all backends is %v", err)
	}
}
