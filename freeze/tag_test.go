// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// sleeper starts a shell that waits for a line, and then for its children.
func sleeper(t *testing.T) (cmd *exec.Cmd, pidfd int, grow func()) {
	t.Helper()
	cmd = exec.Command("/bin/sh", "-c", `read x; setsid sh -c 'sleep 1000 & echo; exec sleep 1000' & exec sleep 1000`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pidfd, err = unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pidfd) })
	return cmd, pidfd, func() {
		t.Helper()
		if _, err := in.Write([]byte("go on\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// Who has been tagged is found with all that it has started since, and nobody else.
func TestTag(t *testing.T) {
	tagged, beside := NewTag(uint64(os.Getpid())), NewTag(uint64(os.Getpid())+1)
	one, oneFD, grow := sleeper(t)
	two, twoFD, growTwo := sleeper(t)
	for _, err := range []error{tagged.Put(one.Process.Pid, oneFD), beside.Put(two.Process.Pid, twoFD)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = Stop{Target: &Tree{Tag: beside}}.Run() })
	t.Cleanup(func() { _, _ = Stop{Target: &Tree{Tag: tagged}}.Run() })
	grow()
	growTwo()
	for _, m := range []Tag{tagged, beside} {
		if got := members(t, &Tree{Tag: m}); len(got) != 3 {
			t.Errorf("%d have the tag, want 3", len(got))
		}
	}
	for _, m := range []Tag{0, 1024, ^Tag(0)} { // values that many have
		if got := members(t, &Tree{Tag: m}); len(got) != 0 {
			t.Errorf("%v have the tag %#x", got, uint64(m))
		}
	}
	res, err := Stop{Target: &Tree{Tag: tagged}}.Run()
	if err != nil || len(res.Stuck) != 0 || len(members(t, &Tree{Tag: tagged})) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if got := members(t, &Tree{Tag: beside}); len(got) != 3 {
		t.Errorf("of the others %d are left, want 3", len(got))
	}
}

// A process that has ended is not tagged, and who may have its pid now keeps its limit.
func TestTagOfNobody(t *testing.T) {
	var before, after unix.Rlimit
	cmd, fd, _ := sleeper(t)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	err := unix.Getrlimit(unix.RLIMIT_LOCKS, &before)
	if err == nil {
		err = NewTag(1).Put(os.Getpid(), fd)
	}
	if !errors.Is(err, unix.ESRCH) {
		t.Errorf("%v, want %v", err, unix.ESRCH)
	}
	if err := unix.Getrlimit(unix.RLIMIT_LOCKS, &after); err != nil || before != after {
		t.Errorf("the limit was %+v, and is %+v (%v)", before, after, err)
	}
}

// A process that is let go is found by its tag no more; another tag stays. Who starts a group of its own takes its tag off.
func TestRemoveAndClearTag(t *testing.T) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	defer ClearTag()
	for name, remove := range map[string]func(Tag){"remove": func(m Tag) { m.Remove(os.Getpid()) }, "clear": func(Tag) { ClearTag() }} {
		m := NewTag(3)
		if err := m.Put(os.Getpid(), fd); err != nil {
			t.Fatal(err)
		}
		if NewTag(4).Remove(os.Getpid()); !m.On(os.Getpid()) {
			t.Error("another tag was removed")
		}
		if remove(m); m.On(os.Getpid()) {
			t.Errorf("%s: it carries the tag yet", name)
		}
	}
}
