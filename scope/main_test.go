//go:build linux

package scope

import (
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// testDirectory is a directory of groups of the test's own.
func testDirectory(t *testing.T) *cgroup.Group {
	t.Helper()
	g, err := cgroup.Open(bed.Group(t, "scope"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}
