// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

// Clients is the directory of the clients that test/e2e/clients/setup installs, with these parts. A test skips without
// them on a developer's machine alone: a CI without the clients would be green for nothing.
func Clients(t *testing.T, parts ...string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(cmp.Or(os.Getenv("TEST_CACHE"), "../../.cache"), "clients"))
	for _, part := range parts {
		_, missing := os.Stat(filepath.Join(dir, part, ".made-from")) // a mount may have left an empty directory
		err = errors.Join(err, missing)
	}
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("run test/e2e/clients/setup first: %v", err)
	}
	bed.Require(t, bed.Feature{Name: "the test clients, by test/e2e/clients/setup", Missing: func() error { return err }})
	return dir
}
