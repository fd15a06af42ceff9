// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

// A World is a group that the processes in it see as the root of the cgroup2
// hierarchy. A sweep in one world cannot remove an orphan in another, so that the
// orphan cannot pass for a group that was stopped correctly.
type World struct{ *Site }

// NewWorld makes one. Its root process keeps its namespaces.
func NewWorld(t *testing.T, p Programs) *World {
	t.Helper()
	w := &World{&Site{T: t, Programs: p, Dir: bed.Group(t, "world"), View: bed.Root(t)}}
	w.Command = func(args ...string) *exec.Cmd { return w.Viewed(nil, args...) }
	cmd := exec.Command(p.World, "--make", bed.Root(t))
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP}
	w.Root = w.Bystander("in the root group", w.Dir, cmd)
	if line := w.Root.read(); line != "made\n" {
		t.Fatalf("make a world: %q", line)
	}
	return w
}

// Viewed is Command with options of client/world.c, which change what it sees.
func (w *World) Viewed(options []string, args ...string) *exec.Cmd {
	line := append([]string{"--in", fmt.Sprint(w.Root.Cmd.Process.Pid)}, options...)
	cmd := exec.Command(w.Programs.World, append(append(line, "--"), args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "LANG=C.UTF-8"}
	return cmd
}
