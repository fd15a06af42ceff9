// SPDX-License-Identifier: Apache-2.0

// Package selection compares what commands mean by names and filters with one table. Its servers, session, orphan
// and leak are real ones, of root and of another user, on a booted host (test/host) with a journal.
package selection

import (
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) {
	escape.Choose(m, "selection")
	build := func(dir string) error { return escape.Build(dir, nil) }
	host.Main(m, host.Options{Users: true, Build: build, Setups: []bed.Setup{host.JournalOnDisk}})
}
