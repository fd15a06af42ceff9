// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/facts"
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
	hourIsOver(w)
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
	s := startKeeping(w, "--keep-for", "1h")
	s.Tell("close")
	s.Server.Ended(escape.Patience)
	hourIsOver(w)
	next := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	s.members.WantDead(t)
	next.Tell("close")
	next.dead()
}

// hourIsOver has all that is kept for an hour be kept for none.
func hourIsOver(w *world) {
	w.T.Helper()
	for _, dir := range keptIn(w) {
		facts.SetKept(w.T, dir, func(kept *protocol.Kept) {
			if stays := time.Duration(kept.Until - kept.Since); stays != time.Hour {
				w.T.Errorf("%s stays for %v", kept.Name, stays)
			}
			kept.Until = kept.Since
		})
	}
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

// What ends with its server although others use it is told, with the line that lets it stay. What nobody uses is not.
func TestToldInUse(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *server){
		"stdin": func(_ *world, s *server) { s.Tell("close") },
		"TERM":  func(_ *world, s *server) { s.Tell("signal %d", unix.SIGTERM) },
		"main":  func(_ *world, s *server) { first, _ := s.members.Main(); first.Signal(unix.SIGKILL) },
		"stop":  func(w *world, s *server) { w.run(w.mcpscope("stop", "server")) },
	} {
		for _, isUsed := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", used: ", isUsed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				dir := t.TempDir()
				at := filepath.Join(dir, "socket")
				file := filepath.Join(dir, "report")
				flags := []string{"-v", "--report", file}
				s := startServer(w, []string{"--group"}, flags, binaries.Zoo, "--target", at, "listener")
				if isUsed {
					useSocket(t, at)
				}
				end(w, s)
				s.dead()
				wantTold(t, isUsed, at, file, escape.Contents(s.Stderr))
			})
		}
	}
}

// useSocket stays connected until the end of the test.
func useSocket(t *testing.T, at string) {
	t.Helper()
	user, err := net.Dial("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if _, err := user.Read(make([]byte, 16)); err != nil { // it was accepted
		t.Fatal(err)
	}
}

func wantTold(t *testing.T, isUsed bool, at, report, stderr string) {
	t.Helper()
	var line struct {
		InUse []struct{ Name, Use string } `json:"in_use"`
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	isTold := len(line.InUse) == 1 && line.InUse[0].Name == "zoo" && strings.Contains(line.InUse[0].Use, at)
	if isTold != isUsed || strings.Contains(stderr, `keep = ["zoo"]`) != isUsed {
		t.Errorf("the report has %+v, and stderr %s", line.InUse, stderr)
	}
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
