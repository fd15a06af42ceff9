// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"bufio"
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
