// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// keptIn are the groups of what is kept.
func keptIn(w *world) []string {
	found, _ := filepath.Glob(filepath.Join(rootsSlice(w.Site), "mcpscope-kept-*")) // the pattern is valid
	return found
}

// When the time of --keep-for is over, a sweep stops what is kept, and not before.
func TestKeepFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startKeeping(w, "--keep-for", "1h")
	s.Tell("close")
	w.run(w.mcpscope("sweep"))
	if n := len(s.members.Running()); n < 3 {
		t.Errorf("%d members are left before the time is over", n)
	}
	w.run(w.mcpscope("stop", "keeper", "keeper+"))
	s.members.WantDead(t)

	s = startKeeping(w, "--keep-for", "1ms")
	s.Tell("close")
	if o := w.run(w.mcpscope("sweep")); !strings.Contains(o.Stdout, "keeper") {
		t.Errorf("sweep does not say what it has stopped: %s%s", o.Stdout, o.Stderr)
	}
	s.members.WantDead(t)
	if left := keptIn(w); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The next start does the same.
func TestStartEndsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startKeeping(w, "--keep-for", "1ms")
	s.Tell("close")
	s.Server.Ended(escape.Patience)
	next := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	s.members.WantDead(t)
	next.Tell("close")
	next.dead()
}

// startKeeping starts a server whose daemon and detached program are kept, and waits for that.
func startKeeping(w *world, flags ...string) *server {
	w.T.Helper()
	flags = append([]string{"--keep", "keeper*"}, flags...)
	s := startServer(w, []string{"--group"}, flags, binaries.Zoo, "--target", "keeper", "daemons")
	isKept := func(role string) bool {
		where, _ := bed.ProcessPath(s.members.Find(role)) // "", if it has ended
		return strings.Contains(where, "/mcpscope-kept-")
	}
	if !pace.Eventually(escape.Patience, func() bool { return isKept("/daemon") && isKept("/detached") }) {
		w.T.Fatalf("not kept: %q", s.members.Survivors())
	}
	return s
}

// The mark alone makes nothing kept: an orphan that has copied it is swept. Without its mark, what is kept stays so: the
// name of its group says it.
func TestForgedKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	s := startKeeping(w)
	for _, dir := range keptIn(w) {
		mark := make([]byte, 4096)
		n, err := unix.Getxattr(dir, "user.mcpscope.kept", mark)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Setxattr(s.group, "user.mcpscope.kept", mark[:n], 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setxattr(dir, "user.mcpscope.kept", []byte("\xff\x00nonsense"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := escape.KillTogether(s.guard, s.Server); err != nil {
		t.Fatal(err)
	}
	w.run(w.mcpscope("sweep")) // of the orphan, which is marked as kept
	if !s.members.AwaitLiving(3, escape.Patience) {
		t.Errorf("the orphan is left: %q", s.members.Survivors())
	}
	if o := w.run(w.mcpscope("ls")); strings.Count(o.Stdout, " kept ") != 2 || o.Status != 0 {
		t.Errorf("ls: %s%s", o.Stdout, o.Stderr)
	}
	if _, err := os.Stat(s.group); err == nil {
		t.Error("the group of the orphan is left")
	}
	if !other.Lives("still there?") {
		t.Error("the other server was hit")
	}
	s.members.Kill()
	other.Tell("close")
	other.members.WantDead(t)
}
