// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// fresh opens a new group of the test's own.
func fresh(t *testing.T) *Group {
	t.Helper()
	g, err := Open(bed.Group(t, "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// start runs a command born in g until the end of the test.
func start(t *testing.T, g *Group, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// nest makes depth directories, each in the last, and returns the deepest.
func nest(t *testing.T, g *Group, depth int) *Group {
	t.Helper()
	for range depth {
		below, err := g.Mkdir("d", 0o700)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(g.path, "/d") { // the caller's own stays open
			_ = g.Close()
		}
		g = below
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// Plain directories look like groups on a cgroup v1 host, where they contain nothing.
func TestOpenRefusesOtherFileSystems(t *testing.T) {
	if g, err := Open(os.TempDir()); err == nil {
		t.Fatalf("opened %s, which is no cgroup", g.Path())
	}
}

func TestMkdirNeverAdopts(t *testing.T) {
	g := fresh(t)
	if _, err := g.Mkdir("a", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Mkdir("a", 0o700); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a second Mkdir of one name: %v", err)
	}
	if _, err := g.MkdirOpen("a", 0o700); err != nil {
		t.Fatalf("MkdirOpen of an existing group: %v", err)
	}
}

func TestNesting(t *testing.T) {
	g := fresh(t)
	top, err := g.Mkdir("top", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	cmd := start(t, nest(t, top, 30), "sleep", "1000")
	if pids, err := top.Members(); err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Fatalf("members: %v, %v; want %d", pids, err, cmd.Process.Pid)
	}
	if err := g.Remove("top"); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("remove a group with a member: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := g.Remove("top"); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove("top"); err != nil {
		t.Fatalf("remove what is gone: %v", err)
	}
}

func TestMembersOfThreadedGroup(t *testing.T) {
	g := fresh(t)
	cmd := start(t, g, "sleep", "1000")
	sub, err := g.Mkdir("threaded", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := sub.Write("cgroup.type", "threaded"); err != nil {
		t.Fatal(err)
	}
	pids, err := sub.Members()
	if err != nil || len(pids) != 0 {
		t.Fatalf("an empty threaded group: %v, %v", pids, err)
	}
	if pids, err := g.Members(); err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Fatalf("the domain above it: %v, %v", pids, err)
	}
}

func TestState(t *testing.T) {
	g := fresh(t)
	below, err := g.Mkdir("below", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	start(t, g, "sleep", "1000")
	for g, want := range map[*Group]bool{g: true, below: false} {
		if st, err := g.State(); err != nil || st.Populated != want {
			t.Errorf("%s: %+v, %v", g.Path(), st, err)
		}
	}
	if err := g.Remove("below"); err != nil {
		t.Fatal(err)
	}
	if st, err := below.State(); err != nil || st.Populated {
		t.Errorf("a removed group: %+v, %v", st, err)
	}
}

func TestLockBelongsToTheDescription(t *testing.T) {
	g := fresh(t)
	if err := g.TryLock(unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	again, err := Open(g.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.TryLock(unix.LOCK_EX); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("a second lock: %v", err)
	}
	shared, err := unix.Dup(g.FD())
	if err != nil {
		t.Fatal(err)
	}
	_ = g.Close()
	if err := again.TryLock(unix.LOCK_EX); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("with a duplicate still open: %v", err)
	}
	_ = unix.Close(shared)
	if err := again.TryLock(unix.LOCK_EX); err != nil {
		t.Fatalf("with all of them closed: %v", err)
	}
	g.fd, _ = unix.Dup(again.FD()) // for the clean-up
}

func TestAttr(t *testing.T) {
	g := fresh(t)
	const attr = "user.mcpscope.test"
	if _, ok, err := g.Attr(attr); ok || err != nil {
		t.Fatalf("an attribute that is not set: %v, %v", ok, err)
	}
	long := string(make([]byte, 5000))
	for _, want := range []string{"", "x", long} {
		if err := g.SetAttr(attr, want); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := g.Attr(attr); got != want || !ok || err != nil {
			t.Fatalf("%d bytes came back as %d (%v, %v)", len(want), len(got), ok, err)
		}
	}
}

// Whatever cgroup.events may hold, doubt means populated.
func FuzzParseState(f *testing.F) {
	f.Add([]byte("populated 0\nfrozen 1\n"))
	f.Add([]byte(""))
	f.Add([]byte("populated"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st := parseState(b); !st.Populated && !bytes.Contains(b, []byte("populated 0")) {
			t.Fatalf("%q reads as empty", b)
		}
	})
}
