// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/test/bed"
)

// asRoot makes an execution of the test binary the root of a tree: a subreaper that
// runs a script, says when it is up, and reaps until it is told to end.
const asRoot = "TREE_TEST_ROOT"

func TestMain(m *testing.M) {
	if script := os.Getenv(asRoot); script != "" {
		os.Exit(root(script))
	}
	bed.Main(m)
}

func root(script string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout = os.Stdout
	if cmd.Start() != nil {
		return 1
	}
	go func() {
		for {
			var ws unix.WaitStatus
			if _, err := unix.Wait4(-1, &ws, unix.WALL, nil); err == unix.ECHILD {
				return
			}
		}
	}()
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until the test closes it
	return 0
}

// grow starts a root; its script has to print a line when all members are there.
func grow(t *testing.T, script string) (*Tree, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asRoot+"="+script)
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
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRoot(fd)
	if err != nil || r.PID != cmd.Process.Pid {
		t.Fatalf("root %+v, %v", r, err)
	}
	tr := &Tree{Roots: []Root{r}}
	t.Cleanup(func() {
		tr.Spare = nil // the test's
		_ = tr.Kill()
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = unix.Close(fd)
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return tr, cmd
}

func members(t *testing.T, tr *Tree) []int {
	t.Helper()
	pids, err := tr.Members()
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

const family = `sleep 1000 & setsid sh -c 'sleep 1000 & echo; exec sleep 1000' & wait`

func TestMembersAreAllThatDescend(t *testing.T) {
	tr, _ := grow(t, family)
	if got := members(t, tr); len(got) != 4 {
		t.Errorf("%d members, want the shell, and three that sleep", len(got))
	}
	tr.Spare = func(st proc.Stat) bool { return st.Comm == "sh" }
	if got := members(t, tr); len(got) != 0 {
		t.Errorf("%v below one who is spared", got)
	}
}

// A dead root's pid may be another's by now.
func TestADeadRootHasNobody(t *testing.T) {
	tr, cmd := grow(t, `echo; exec sleep 1000`)
	child, err := unix.PidfdOpen(members(t, tr)[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	tr.Roots = append(tr.Roots, Root{PID: os.Getpid(), PIDFD: tr.Roots[0].PIDFD})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got := members(t, tr); len(got) != 0 {
		t.Errorf("%v below a root that has ended", got)
	}
	// it went to init, or to a subreaper above us
	if err := unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0); err != nil {
		t.Error(err)
	}
}

func TestLadder(t *testing.T) {
	tr, cmd := grow(t, family)
	res, err := Stop{Target: tr, Ask: unix.SIGTERM, Grace: Forever}.Run()
	if err != nil || res.Killed || res.Asked != 4 {
		t.Errorf("%+v, %v", res, err)
	}
	if st, err := proc.ReadStat(cmd.Process.Pid); err != nil || st.State == 'Z' {
		t.Errorf("the root was ended with its tree: %+v, %v", st, err)
	}
}

func TestFrozenAndThawed(t *testing.T) {
	tr, _ := grow(t, `for i in 1 2 3; do while :; do :; done & done; echo; wait`)
	freeze(tr)
	for _, pid := range members(t, tr) {
		if st, err := proc.ReadStat(pid); err != nil || st.State != 'T' {
			t.Errorf("%d is in state %c (%v)", pid, st.State, err)
		}
	}
	if err := tr.SetFrozen(false); err != nil {
		t.Fatal(err)
	}
	if st, err := tr.State(); err != nil || st.Frozen || !st.Populated {
		t.Errorf("thawed: %+v, %v", st, err)
	}
}

func TestAwait(t *testing.T) {
	tr, _ := grow(t, `sleep 1000 & echo; wait`)
	empty := func(s cgroup.State) bool { return !s.Populated }
	if _, ok, err := tr.Await(time.Now().Add(20*time.Millisecond), -1, empty); ok || err != nil {
		t.Fatalf("a populated tree counts as empty (%v)", err)
	}
	flag, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(flag)
	if _, ok, err := tr.Await(time.Time{}, flag, empty); ok || err != nil {
		t.Fatalf("woken: %v, %v", ok, err)
	}
	var signalling sync.WaitGroup
	signalling.Go(func() { _, _ = Signal(tr, unix.SIGKILL) })
	defer signalling.Wait() // it looks at the tree, which the end of the test changes
	if _, ok, err := tr.Await(time.Time{}, -1, empty); !ok || err != nil {
		t.Fatalf("the end was not seen (%v)", err)
	}
}

func TestCPU(t *testing.T) {
	tr, _ := grow(t, `i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; sleep 1000`)
	if used := tr.CPU(); used <= 0 || used > time.Hour {
		t.Errorf("used %v", used)
	}
	if none := (&Tree{}).CPU(); none != 0 {
		t.Errorf("an empty tree has used %v", none)
	}
}

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
