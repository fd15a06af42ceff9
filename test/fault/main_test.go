// SPDX-License-Identifier: Apache-2.0

// Package fault interrupts `mcpscope run` wherever it meets the kernel or a manager: every
// system call of its processes, found by watching a run, and every message to and from a
// manager. At each of these points guards are killed, or the call fails. Afterwards either the
// server ran contained, or nothing of it is left and a line says why.
//
// The calls are held by a seccomp listener (seccomp_unotify(2)), in which the real kernel
// waits for the test: it lets a call go on, answers it with an error, or kills somebody
// first. What mcpscope does is not changed, and nobody but its own processes is touched.
package fault

import (
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

var programs = escape.ProgramsIn(host.Shared)

// What the tests run beside those.
var (
	mcpscope = filepath.Join(host.Shared, "mcpscope")
	stage    = filepath.Join(host.Shared, "stage")
	server   = filepath.Join(host.Shared, "server")
)

func TestMain(m *testing.M) {
	bed.Parallel(256) // lanes bound the work
	host.Main(m, host.Options{Users: true, Build: build, Writable: escape.TableFiles()})
}

func build(dir string) error {
	if err := escape.AppendTable(""); err != nil { // where the host finds it
		return err
	}
	return escape.Build(dir, map[string][]string{
		"stage":  escape.CC("stage/stage.c"),
		"server": escape.CC("server/server.c", "../escape/zoo/register.c", "../escape/zoo/member.c"),
	})
}
