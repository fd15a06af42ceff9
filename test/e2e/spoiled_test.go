// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A member of root's may take from the supervisor what it needs to end a group. The launcher looks for itself before it returns.
func TestSupervisorWithoutDescriptors(t *testing.T) {
	t.Parallel()
	s := startServer(newWorld(t), []string{"--group"}, []string{"--eof-grace", soon, "--term-grace", soon}, binaries.Zoo, "ignore-both")
	if err := unix.Prlimit(s.supervisor.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	s.Tell("close")
	if !s.Server.Ended(escape.Patience) {
		t.Fatal("the launcher did not return")
	}
	if left := s.members.Running(); len(left) > 0 {
		t.Errorf("it returned before they were dead: %q", left)
	}
	s.world.clean()
}
