//go:build linux

// Package groups gives tests directories of cgroups.
package groups

import (
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/test/bed"
)

// Directory is one of the test's own, which ends with it.
func Directory(t *testing.T) *cgroup.Group {
	t.Helper()
	g, err := cgroup.Open(bed.Group(t, "groups"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}
