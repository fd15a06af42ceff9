// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hold

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

func TestMain(m *testing.M) { bed.Main(m) }

// It is where it should be, has nothing open but its end of a pipe, gets no signal to end, and ends when it should.
func TestIn(t *testing.T) {
	f, err := cgroup.Open(bed.Group(t, "held"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := In(f)
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(h.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	procs, err := os.ReadFile(filepath.Join(f.Path(), "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(procs)) != fmt.Sprint(h.PID) {
		t.Errorf("in the group: %q, %v; want %d", procs, err, h.PID)
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGTERM, nil, 0); err != nil {
		t.Error(err)
	}
	ended := unix.PollFd{Fd: int32(pidfd), Events: unix.POLLIN}
	for n := -1; n != 1; { // it may not have closed them yet, and no event reports that
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.PID))
		if err != nil {
			t.Fatal(err)
		}
		if n = len(fds); n != 1 && escape.PollFor(time.Millisecond, ended) {
			t.Fatal("it has ended")
		}
	}
	h.End()
	if !escape.PollFor(0, ended) {
		t.Error("End has returned, and it lives")
	}
}
