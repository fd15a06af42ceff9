// SPDX-License-Identifier: Apache-2.0

// Package systemd tests the scopes that mcpscope asks a real systemd for, in a booted
// host of the test run's own (test/host).
package systemd

import (
	"cmp"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/transparent"
)

const patience = escape.Patience

var mcpscope = cmp.Or(escape.Installed(), host.Shared+"/mcpscope")

var programs = escape.ProgramsIn(host.Shared)

func TestMain(m *testing.M) {
	becomeProgram() // does not return in a process that only has to look like others
	escape.Choose(m, "systemd")
	bed.Parallel(16) // the escape table bounds itself
	commands := transparent.Commands(map[string][]string{"like": escape.Go("../gateway/like")})
	build := func(dir string) error { return escape.Build(dir, commands) }
	host.Main(m, host.Options{Users: true, Build: build, Writable: escape.TableFiles()})
}
