// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaderless makes the test binary a process whose first thread has ended and
// whose others (the runtime always has one) run on.
const leaderless = "MCPSCOPE_TEST_LEADERLESS"

func init() {
	if os.Getenv(leaderless) != "" {
		runtime.LockOSThread() // in an init, to the first thread
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(leaderless) != "" {
		time.AfterFunc(time.Minute, func() { os.Exit(1) }) // should nobody be left to kill it
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)     // of the thread, so it does not return
	}
	os.Exit(m.Run())
}

// TestLeaderless: it is a zombie by its state and its arguments, but lives.
func TestLeaderless(t *testing.T) {
	cmd := exec.Command(must[string](t)(os.Executable()))
	cmd.Env = append(os.Environ(), leaderless+"=1")
	start(t, cmd)
	pid := cmd.Process.Pid
	s := must[Stat](t)(ReadStat(pid))
	for deadline := time.Now().Add(10 * time.Second); s.State != 'Z' && time.Now().Before(deadline); runtime.Gosched() {
		s = must[Stat](t)(ReadStat(pid))
	}
	if s.State != 'Z' || s.Threads < 2 {
		t.Fatalf("got %+v, want a zombie with other threads", s)
	}
	if got, err := alive(pid); err != nil || !got {
		t.Errorf("leaderless: alive %v, %v", got, err)
	}
	zombify(t, cmd)
	if got, err := alive(pid); err != nil || got {
		t.Errorf("killed: alive %v, %v", got, err)
	}
}
