// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guard

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// killWithin is the time of a start in which the kills come.
const killWithin = 20 * time.Millisecond

// tries is how often each kind of kill is tried: MCPSCOPE_KILLS, or a few.
func tries(t *testing.T) int {
	t.Helper()
	text := os.Getenv("MCPSCOPE_KILLS")
	if text == "" {
		return 30
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("MCPSCOPE_KILLS: %v", err)
	}
	return n
}

// Kills at random moments of a start leave nothing.
func TestRandomKills(t *testing.T) {
	stops := "kill -STOP $PPID; exec sleep 1000"
	for name, c := range map[string]struct {
		script string
		kill   func(*run) (status int)
	}{
		"launcher":       {sleeper, (*run).killLauncher},
		"process group":  {sleeper, (*run).killProcessGroup},
		"guard":          {sleeper, (*run).killGuard},
		"server":         {sleeper, (*run).killServer},
		"launcher twice": {sleeper, (*run).killLauncherAndBrain},
		"stopped guard":  {stops, (*run).killLauncher},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range tries(t) {
				after := rand.N(killWithin)
				r := start(t, c.script, nil)
				time.Sleep(after) // a moment, not an event, is what is tried
				want := c.kill(r)
				if got := r.status(); got != want {
					t.Errorf("after %v: status %d, want %d; log %q; %s", after, got, want, r.log(), r.stderr.String())
				}
				r.sweeps = c.script == stops // the stop may come after the launcher's death
				r.wantNothing()
				r.close()
				if t.Failed() {
					t.Fatalf("after %v", after)
				}
			}
		})
	}
}

func (r *run) killLauncher() int {
	r.signal(r.Process, unix.SIGKILL)
	return -1
}

// killProcessGroup is the launcher's: start has made one.
func (r *run) killProcessGroup() int {
	if err := unix.Kill(-r.Process.Pid, unix.SIGKILL); err != nil { // not reaped, it still is the launcher's
		r.t.Error(err)
	}
	return -1
}

// killGuard kills a guard that is there, and otherwise ends the server.
func (r *run) killGuard() int {
	for _, pid := range r.members("guards") {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // in a pid namespace of the tests
			_ = unix.Close(fd)
			return 125
		}
	}
	_ = r.stdin.Close()
	return 137
}

func (r *run) killServer() int {
	dir := filepath.Join(r.config.Parent, "server")
	for len(r.members("server")) == 0 { // no event says so of a shell that has not written yet
		time.Sleep(100 * time.Microsecond)
	}
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	return 137
}

// killLauncherAndBrain kills the next brain as well, if it is there.
func (r *run) killLauncherAndBrain() int {
	r.signal(r.Process, unix.SIGKILL)
	time.Sleep(rand.N(killWithin))
	for _, pid := range r.members("guards") {
		args, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if !strings.Contains(string(args), "supervise") {
			continue // the guard: of both deaths a sweep has to learn
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			_ = unix.Close(fd)
		}
	}
	return -1
}
