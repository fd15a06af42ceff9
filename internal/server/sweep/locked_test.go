// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/test/groups"
)

// stranger is a user without any process of ours.
const stranger = 65534

// Any user can lock a directory that a manager has made, and the files in it. That keeps no start from sweeping.
func TestSweepBesideTheLockOfAnotherUser(t *testing.T) {
	for name, files := range map[string][]string{
		"directory": {"."},
		"turn":      {"cgroup.procs"},
		"both":      {".", "cgroup.procs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := publicDirectory(t)
			orphan := newGroup(t, parent, "orphan")
			unlock(orphan)
			for _, file := range files {
				lockAs(t, stranger, filepath.Join(parent.Path(), file))
			}
			BeginSweepOfMany(again(t, parent), "").Await()
			if left := group.OwnIn(parent); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A busy host takes and releases locks while they are read, and some are not read then.
func TestLockOfAnotherUserBesideManyLocks(t *testing.T) {
	parent := publicDirectory(t)
	lockAs(t, stranger, parent.Path())
	const many = 600 // some pages of /proc/locks
	files := make([]*os.File, many)
	for i := range files {
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files[i] = file
	}
	var busy sync.WaitGroup
	stop := make(chan struct{})
	busy.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = unix.Flock(int(files[rand.IntN(many)].Fd()), []int{unix.LOCK_EX, unix.LOCK_UN}[i%2])
			}
		}
	})
	defer busy.Wait()
	defer close(stop)
	for range 300 {
		if isLocked, err := group.LockUnlessForeign(parent, os.Getuid()); isLocked || err != nil {
			t.Fatalf("locked: %v, error: %v; want neither", isLocked, err)
		}
	}
}

// A process of the own user can be another sweep, or the maker of a session.
func TestSweepBesideTheLockOfTheSameUser(t *testing.T) {
	parent := publicDirectory(t)
	orphan := newGroup(t, parent, "orphan")
	unlock(orphan)
	session := newSession(t, parent)
	makeOld(t, session)
	lockAs(t, os.Getuid(), parent.Path())
	lockAs(t, os.Getuid(), session.Path())
	BeginSweepOfMany(again(t, parent), "").Await()
	if left := group.OwnIn(parent); len(left) != 1 {
		t.Errorf("a start has swept beside another sweep; left: %q", left)
	}
	if err := backend.RemoveSession("/somewhere", parent, filepath.Base(session.Path())); err != nil {
		t.Error(err)
	}
	if isRemoved(session)() {
		t.Error("a session is removed that its agent is about to enter")
	}
}

// Another user's lock neither keeps a session from being removed nor makes its end fail.
func TestSessionsThatAnotherUserLocks(t *testing.T) {
	parent := publicDirectory(t)
	swept := newSession(t, parent)
	left := newSession(t, parent)
	for _, session := range []*cgroup.Group{swept, left} {
		makeOld(t, session)
		publish(t, session)
		lockAs(t, stranger, session.Path())
	}
	if err := backend.RemoveSession("/somewhere", parent, filepath.Base(swept.Path())); err != nil {
		t.Error(err)
	}
	root, _, err := group.Position(0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at := strings.TrimPrefix(left.Path(), root.Path())
	if err := backend.LeaveSession(at, time.Now().Add(time.Minute)); err != nil {
		t.Error(err)
	}
	for _, session := range []*cgroup.Group{swept, left} {
		if !isRemoved(session)() {
			t.Errorf("%s is left", session.Path())
		}
	}
}

// A member can take the locks of its group, and remove its tag. It is still no launcher, and no watcher.
func TestSweepOfAGroupThatAMemberLocks(t *testing.T) {
	parent := groups.Directory(t)
	g := newGroup(t, parent, "locked")
	dir := g.Payload.Path()
	cmd := exec.Command("flock", "--shared", dir+"/cgroup.events", "flock", dir, "cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.Payload.FD()}
	if err := unix.Flock(g.Payload.FD(), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	stdin, stdout := piped(t, cmd)
	if _, err := io.WriteString(stdin, "locked\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the member has no locks: %v", err)
	}
	unlock(g)
	if _, left := sweepAll(t, parent); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Root's sweep does not wait for a lock that another user has taken.
func TestCommandBesideTheLockOfAnotherUser(t *testing.T) {
	parent := publicDirectory(t)
	lockAs(t, stranger, parent.Path())
	s := sweeper{until: time.Now().Add(time.Hour)}
	s.lockAlone(parent)
}

// publicDirectory has the mode of a manager's directories.
func publicDirectory(t *testing.T) *cgroup.Group {
	t.Helper()
	parent := groups.Directory(t)
	publish(t, parent)
	return parent
}

func publish(t *testing.T, dir *cgroup.Group) {
	t.Helper()
	if err := os.Chmod(dir.Path(), 0o755); err != nil {
		t.Fatal(err)
	}
}

// lockAs has a process of a user lock a file until the test ends. The path to it need not be open to that user.
func lockAs(t *testing.T, uid int, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// It opens the file again, so the lock is not that of our descriptor.
	cmd := exec.Command("flock", "/proc/self/fd/3", "cat")
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	stdin, stdout := piped(t, cmd)
	if _, err := io.WriteString(stdin, "locked\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatalf("user %d does not lock %s: %v", uid, path, err)
	}
}

// piped starts a command that ends with its stdin.
func piped(t *testing.T, cmd *exec.Cmd) (stdin io.WriteCloser, stdout io.Reader) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return stdin, stdout
}
