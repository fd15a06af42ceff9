// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A member stops its launcher faster than that can react to the signal that it got when a sweep continued it.
func TestSweepEndsALauncherThatIsStoppedAgainAndAgain(t *testing.T) {
	launcher := exec.Command("sh", "-c", "trap exit TERM; echo; while :; do :; done")
	out, err := launcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	defer launcher.Wait() // it was killed
	defer launcher.Process.Kill()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(launcher.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	identity, err := group.Identify(launcher.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}

	_ = unix.PidfdSendSignal(pidfd, unix.SIGSTOP, nil, 0) // it lives
	stopped := func() bool {
		st, err := proc.ReadStat(identity.PID)
		return err == nil && st.Stopped()
	}
	if !pace.Eventually(time.Minute, stopped) {
		t.Fatal("it does not stop")
	}
	_ = unix.PidfdSendSignal(pidfd, unix.SIGTERM, nil, 0) // it is pending until the launcher is continued
	go func() {
		for !linux.Ended(pidfd) {
			_ = unix.PidfdSendSignal(pidfd, unix.SIGSTOP, nil, 0)
		}
	}()

	if !wakeOrKillAskedLauncher(identity, os.Getuid()) {
		t.Error("no stopped launcher was seen")
	}
	if !pace.Eventually(time.Minute, func() bool { return linux.Ended(pidfd) }) {
		t.Error("the launcher lives")
	}
}
