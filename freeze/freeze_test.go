// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

func fresh(t *testing.T) *cgroup.Group {
	t.Helper()
	g, err := cgroup.Open(bed.Group(t, "freeze"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// shell runs a script born in g; it is ready when it has printed a line.
func shell(t *testing.T, g *cgroup.Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// awaitEmpty: a killed member is gone a moment later.
func awaitEmpty(t *testing.T, g *cgroup.Group) {
	t.Helper()
	if err := bed.WaitEmpty(g.Path(), escape.Patience); err != nil {
		t.Fatal(err)
	}
}

// freeze does what has a bound in the product as often as a busy machine needs.
func freeze(g Target) {
	for !Freeze(g) {
		runtime.Gosched()
	}
}

func TestFreezeWaits(t *testing.T) {
	g := fresh(t)
	shell(t, g, `for i in 1 2 3; do while :; do :; done & done; echo; wait`)
	freeze(g)
	b, err := os.ReadFile(filepath.Join(g.Path(), "cgroup.events"))
	if err != nil || !strings.Contains(string(b), "frozen 1") {
		t.Fatalf("returned before frozen 1: %q", b)
	}
	if err := g.Thaw(); err != nil {
		t.Fatal(err)
	}
}

// A member may have frozen a group below, and could not act on the signal there.
func TestAskReachesWhoIsFrozenOrStopped(t *testing.T) {
	g := fresh(t)
	below, err := g.Mkdir("below", 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	// no children: one that is asked before it has executed its program loses the signal to the shell's trap
	frozen := shell(t, below, `trap 'exit 7' TERM; echo; while :; do :; done`)
	stopped := shell(t, g, `trap 'exit 8' TERM; echo; kill -STOP $$; while :; do :; done`)
	if err := unix.Waitid(unix.P_PID, stopped.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	freeze(below)
	res, err := Stop{Target: g, Ask: unix.SIGTERM, Grace: Forever}.Run()
	if err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, g)
	if res.Killed {
		t.Error("had to kill who would have gone when asked")
	}
	for cmd, want := range map[*exec.Cmd]int{frozen: 7, stopped: 8} {
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s ended with %d, want %d", cmd.Args[2], got, want)
		}
	}
}

func TestLadderKillsWhoIgnores(t *testing.T) {
	g := fresh(t)
	shell(t, g, `trap '' TERM INT; echo; while :; do sleep 1; done`)
	seen := false
	begin := time.Now()
	res, err := Stop{Target: g, Ask: unix.SIGTERM, Grace: 200 * time.Millisecond, Frozen: func() { seen = true }}.Run()
	if err != nil || !res.Killed || !seen {
		t.Fatalf("%+v, %v, saw the frozen group: %v", res, err, seen)
	}
	awaitEmpty(t, g)
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("killed after %v, before the grace was over", took)
	}
}

func TestHurryEndsTheGrace(t *testing.T) {
	g := fresh(t)
	shell(t, g, `trap '' TERM; echo; while :; do sleep 1; done`)
	flag, err := NewFlag()
	if err != nil {
		t.Fatal(err)
	}
	defer flag.Close()
	flag.Raise()
	flag.Raise()
	if res, err := (Stop{Target: g, Ask: unix.SIGTERM, Grace: Forever, Hurry: flag}).Run(); err != nil || !res.Killed {
		t.Fatalf("%+v, %v", res, err)
	}
	awaitEmpty(t, g)
}

// Nobody is signalled who is not a member, were the list as old as it may be.
func TestSignalSparesWhoIsNoMember(t *testing.T) {
	g := fresh(t)
	shell(t, g, `echo; sleep 1000`)
	bystander := shell(t, fresh(t), `trap 'exit 9' TERM; trap 'exit 5' WINCH; echo; while :; do sleep 0.01; done`)
	pids, err := g.Members()
	if err != nil {
		t.Fatal(err)
	}
	reached, err := signalSome(g, append(pids, bystander.Process.Pid), []unix.Signal{unix.SIGTERM})
	if err != nil || len(reached) != len(pids) {
		t.Fatalf("reached %v of %v (%v)", reached, pids, err)
	}
	_ = bystander.Process.Signal(unix.SIGWINCH) // of the two a shell looks at SIGTERM first
	_ = bystander.Wait()                        // its status tells
	if got := bystander.ProcessState.ExitCode(); got != 5 {
		t.Errorf("the bystander ended with %d, want 5", got)
	}
}

func TestEmptyGroup(t *testing.T) {
	g := fresh(t)
	if res, err := (Stop{Target: g, Ask: unix.SIGTERM, Grace: time.Hour}).Run(); err != nil || res.Killed {
		t.Fatalf("%+v, %v", res, err)
	}
	if left, err := Kill(g, time.Second); err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
}
