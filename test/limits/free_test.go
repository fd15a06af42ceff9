// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// tooMuch is free on no host.
const tooMuch = "900T"

// awaitWait waits until the start has said that it waits.
func (s *server) awaitWait() {
	s.t.Helper()
	isWaiting := func() bool { return strings.Contains(s.Said(), " of free memory: now ") }
	if !pace.Eventually(escape.Patience, isWaiting) {
		s.t.Fatalf("it does not wait; stderr: %s", s.Said())
	}
}

// onCgroup is the backend of this machine that needs no manager.
func onCgroup(t *testing.T) backend {
	t.Helper()
	for _, b := range backends() {
		if b.name == "cgroup" {
			return b
		}
	}
	t.Fatal("no backend cgroup")
	return backend{}
}

// A start that memory does not become free for starts nothing, and names the largest servers and the next step.
func TestStartWithoutFreeMemory(t *testing.T) {
	b := onCgroup(t)
	large := b.start(t, "large", nil, hungry)
	large.Line()
	s := b.start(t, "refused", []string{"--min-free", tooMuch}, "echo started")
	status := s.wait()
	said := s.Said()
	if status.ExitStatus() != 125 || strings.Count(said, "\n") != 1 {
		t.Errorf("status %v; stderr: %s", status, said)
	}
	escape.Contains(t, said, `mcpscope: cannot start "refused": after 10s only `, "of memory is free, and min-free is 900T",
		"your largest servers are large (", ": mcpscope stop ", ", or give a smaller --min-free\n")
	large.end()
}

// A signal in the wait ends the start at once, and nothing of it is left: host.Main looks for that.
func TestSignalWhileAStartWaits(t *testing.T) {
	s := onCgroup(t).start(t, "waiting", []string{"--verbose", "--min-free", tooMuch}, "echo started")
	s.awaitWait()
	if err := s.Cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	status := s.wait()
	if status.Signal() != unix.SIGTERM || strings.Contains(s.Said(), "cannot start") {
		t.Errorf("it ended with %v; stderr: %s", status, s.Said())
	}
}

// besideHog is a client that is in a unit with 200M of memory. Another process there takes 150M, and frees them
// when a line is written to the FIFO.
const besideHog = `mkfifo "$0"
	dd if=/dev/zero bs=150M count=1 2>/dev/null | { read -r line <"$0"; } >/dev/null & # then dd gets SIGPIPE
	file=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/memory.current
	until read -r now <$file && [ "$now" -gt 150000000 ]; do :; done
	exec "$@"`

// A start waits while the limit of its client's unit leaves too little, and goes on when memory becomes free.
func TestStartWaitsForFreeMemory(t *testing.T) {
	if suite == "" || hybrid {
		bed.Require(t, bed.Controller("memory"))
	}
	if strings.HasSuffix(suite, "+init") {
		t.Skip("a unit with a limit needs systemd")
	}
	fifo := filepath.Join(t.TempDir(), "free")
	for _, b := range backends() {
		if b.name != "delegated" { // others leave the client's unit, and its limit
			continue
		}
		b.wrap = []string{"systemd-run", "--scope", "--quiet", "--collect", "--property=Delegate=yes",
			"--property=MemoryMax=200M", "--property=MemorySwapMax=0", "--", "sh", "-c", besideHog, fifo}
		s := b.start(t, "patient", []string{"--verbose", "--min-free", "100M"}, "echo started; cat")
		s.awaitWait()
		escape.Contains(t, s.Said(), " of memory is free below the limit of /")
		if err := bed.Write(fifo, "free\n"); err != nil {
			t.Fatal(err)
		}
		s.Hear("started")
		if status := s.end(); status != 0 {
			t.Errorf("it ended with %v", status)
		}
		notes := strings.Join(s.told().Notes, "\n")
		escape.Contains(t, notes, "waited for free memory: ")
	}
}
