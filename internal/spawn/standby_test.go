// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// guarded is a group with one leaf and somebody who stands by for it.
func guarded(t *testing.T) (s *Standby, leaf directory) {
	t.Helper()
	parent := group(t)
	s, err := StandBy(group(t), parent, "guarded", []string{"leaf"}, 100*time.Millisecond, Cleaner{Path: "/bin/sh", Argv: func(fd int) []string {
		return []string{"sh", "-c", fmt.Sprintf("until rmdir /proc/self/fd/%[1]d/guarded/leaf; do :; done; rmdir /proc/self/fd/%[1]d/guarded", fd)}
	}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent.Name(), "guarded", "leaf")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return s, directory{f}
}

// sleeper is a member that has nothing of ours open.
func sleeper(t *testing.T, g directory) int {
	t.Helper()
	pid, err := (&Cmd{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, Group: g}).Start()
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestStandbyLeavesWhoIsReady(t *testing.T) {
	s, g := guarded(t)
	pid := sleeper(t, g)
	if _, err := unix.Write(s.Ready, []byte{1}); err != nil {
		t.Fatal(err)
	}
	s.End(time.Minute)
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("the member: %v", err)
	}
	_ = unix.Kill(pid, unix.SIGKILL) // our child, unreaped
	raw.Reap(pid)
}

// The caller that lives has whatever it did not finish to itself.
func TestStandbyLeavesWhatTheCallerHas(t *testing.T) {
	s, g := guarded(t)
	pid := sleeper(t, g)
	s.End(time.Minute)
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("the member: %v", err)
	}
	_ = unix.Kill(pid, unix.SIGKILL) // our child, unreaped
	raw.Reap(pid)
}

// A caller has died when nobody has its end of the pipe any more.
func TestStandbyKills(t *testing.T) {
	for name, others := range map[string]bool{"at once": false, "when nobody is ready in time": true} {
		t.Run(name, func(t *testing.T) {
			s, g := guarded(t)
			if _, err := os.Stat(filepath.Join(g.Name(), "cgroup.kill")); errors.Is(err, fs.ErrNotExist) {
				t.Skip("needs cgroup.kill (Linux 5.14)")
			}
			s.Birth()
			pid := sleeper(t, g)
			if others {
				defer unix.Close(s.Ready)
			} else {
				_ = unix.Close(s.Ready)
			}
			_ = unix.Close(s.alive)
			var ws unix.WaitStatus
			if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil || ws.Signal() != unix.SIGKILL {
				t.Fatalf("the member: %v, %v", ws, err)
			}
			awaitGone(t, filepath.Dir(g.Name()))
		})
	}
}

// It is there before the group is.
func TestStandbyRemovesWhatIsEmpty(t *testing.T) {
	s, g := guarded(t)
	_ = unix.Close(s.Ready)
	_ = unix.Close(s.alive)
	awaitGone(t, filepath.Dir(g.Name()))
}

// awaitGone waits until a directory has been removed, which no descriptor tells: whoever removes it has ended then.
func awaitGone(t *testing.T, dir string) {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, filepath.Dir(dir), unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(watch), Events: unix.POLLIN}}, int(time.Minute.Milliseconds())); n != 1 {
		t.Fatalf("%s is left (%v)", dir, err)
	}
}
