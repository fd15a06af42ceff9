// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func TestSentence(t *testing.T) {
	status := 1
	limit := uint64(1 << 30)
	for want, r := range map[string]Report{
		"ended after 13s: it received SIGINT; 3 other processes stopped: chrome, sleep, tmux: server": {
			Seconds: 13.2, Cause: causes.Signalled, Signal: "SIGINT",
			Stopped: []string{"chrome", "sleep", "tmux: server"}, StoppedTotal: 3,
		},
		"ended after 2.1s: it exited with status 1; 1 left-over process stopped: sleep": {
			Seconds: 2.12, Cause: causes.MainExited, ExitStatus: &status,
			Stopped: []string{"sleep"}, StoppedTotal: 1,
		},
		"ended after 5ms: it exited by SIGSEGV": {
			Seconds: 0.005, Cause: causes.MainExited, ExitSignal: "SIGSEGV",
		},
		"ended after 2s: its client closed stdin": {Seconds: 2, Cause: causes.StdinClosed},
		"ended after 2s: its client closed stdin, and has exited": {
			Seconds: 2, Cause: causes.StdinClosed, ClientEnded: true,
		},
		"ended after 18s: its main process ended (status unknown)": {
			Seconds: 18, Cause: causes.MainExited,
		},
		"ended after 1h1m0s: its client was gone (it closed stdout); 20 other processes stopped: a and 19 more; " +
			"process 7 (a) did not exit on a signal and had to be killed": {
			Seconds: 3660, Cause: causes.StdoutClosed, Stopped: []string{"a"}, StoppedTotal: 20,
			Killed: []Killed{{PID: 7, Name: "a"}}, KilledTotal: 1,
		},
		"ended after 2.1s: mcpscope run was killed; process 7 (a) killed with it": {
			Seconds: 2.12, Cause: causes.LauncherGone, Killed: []Killed{{PID: 7, Name: "a"}}, KilledTotal: 1,
		},
		"ended after 10s: out of memory (its limit is 1024 MB), the kernel killed all of it": {
			Seconds: 10, Cause: causes.MemoryExhausted, Figures: protocol.Figures{MemoryMax: &limit},
		},
		"ended after 10s: its session was out of memory (the limit of the agent and all its servers is 1024 MB), " +
			"the kernel killed all of this server, which used up to 1024 MB": {
			Seconds: 10, Cause: causes.MemoryExhausted,
			Figures: protocol.Figures{SessionMax: &limit, SessionExhausted: true, MemoryPeak: &limit},
		},
		"ended after 10s: out of memory or swap, systemd-oomd killed it": {
			Seconds: 10, Cause: causes.MemoryExhausted, Figures: protocol.Figures{ByOOMD: true},
		},
	} {
		r.Ended = r.Started.Add(time.Duration(r.Seconds * float64(time.Second)))
		if got := r.Sentence(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	for _, cause := range causes.All() {
		r := Report{Cause: cause}
		if r.reason() == string(cause) {
			t.Errorf("the cause %s has no words", cause)
		}
	}
}

func TestSignalName(t *testing.T) {
	for sig, want := range map[unix.Signal]string{
		0: "", 9: "SIGKILL", 32: "SIG32", 34: "SIGRTMIN", 37: "SIGRTMIN+3", 64: "SIGRTMIN+30",
	} {
		if got := SignalName(sig); got != want {
			t.Errorf("%d: %q, want %q", int(sig), got, want)
		}
	}
}
