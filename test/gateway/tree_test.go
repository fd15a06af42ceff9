// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// tree starts a gateway whose servers have no cgroups: their members are the processes with their tags.
func (w *world) tree(flags ...string) *Gateway {
	w.T.Helper()
	line := append([]string{binaries.mcpscope, "gateway", "--backend", "tree", "--explain", w.explain}, flags...)
	g := w.start(append(line, "--", binaries.like, "gateway", "run"))
	g.Groups = ""
	return g
}

// TestTreeEscape is TestEscape where there is no cgroup to be had, as in most containers.
func TestTreeEscape(t *testing.T) {
	t.Parallel()
	b := escape.Backend{Name: "tree"}
	FillTable(t, "below a gateway in a container", b, Modes(t, binaries.Programs), Ends(), treeCell)
}

func treeCell(t *testing.T, m escape.Mode, e End) escape.Result {
	w := newWorld(t)
	g := w.tree("--match", "zoo", "--eof-grace", "200ms", "--term-grace", "200ms")
	c := &Cell{T: t, End: e, G: g, Programs: binaries.Programs, Run: func(args ...string) { w.run(args...) }}
	scratch := "--scratch " + w.Seen(w.Unique("scratch"))
	options := append([]string{"--sibling", w.Seen(w.Unique("sibling")), scratch}, m.Nice()...)
	return c.Judge(strings.Join(options, " ")+" ", m.Name, w.Plain("beside", w.Unique("beside")))
}

// Where the cgroups can't be written, as in most containers, nothing but a server says that a daemon is its client. The
// next watcher goes by that: the server has no pipes that would show it.
func TestWatcherWithoutRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const readOnly = `mount -o remount,ro,bind /sys/fs/cgroup && exec "$@"`
	g := w.start([]string{
		"unshare", "--mount", "sh", "-c", readOnly, "sh", binaries.mcpscope, "gateway", "--backend", "tree", "--explain", w.explain,
		"--match", "zoo", "--match", "sleep *", "--eof-grace", "0", "--term-grace", "200ms", "--", binaries.like, "gateway", "run",
	})
	g.Groups = ""
	own := g.Server(binaries.Programs, "own", "ignore-both")
	d := w.session(g, binaries.like, "gateway", "run", "--daemon")
	listening := d.Tool("listen sleep 1000")
	areTaken := func(now string) bool { return strings.Count(now, takenAs) == 2 }
	if err := escape.AwaitText(w.explain, escape.Patience, areTaken); err != nil {
		t.Fatal(err)
	}
	old := g.Watcher()
	old.Signal(unix.SIGKILL)
	if !old.Ended(escape.Patience) {
		t.Fatal("the watcher outlived SIGKILL")
	}
	g.Tell("close own")
	own.Gone(t)
	Lives(t, "the server of the daemon", listening)
	d.Own.Signal(unix.SIGKILL)
	escape.WantEnded(t, listening)
	g.Own.Signal(unix.SIGKILL)
}

// In a plain container the servers of a gateway end with their stdin, and with the gateway. Processes of its tools
// live on, until the container ends.
func TestContainer(t *testing.T) {
	// docker's filter refuses the copy of a descriptor: the end of a socket is not seen, but by the server
	for kind, mode := range map[string]string{"pipes": "ignore-both", "sockets": "double-fork"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			// the first process outlives the gateway, and reaps nothing then
			const first = `"$@"; exec sleep infinity`
			cmd := host.Poor(t, host.Container, "sh", "-c", first, "sh",
				binaries.mcpscope, "gateway", "--match", "*zoo*", "--", binaries.like, "gateway", "run")
			g := StartContained(t, cmd)
			g.Uses(kind)
			one := g.Server(binaries.Programs, "one", mode)
			two := g.Server(binaries.Programs, "two", "double-fork")
			written := filepath.Join(t.TempDir(), "written")
			g.Tell("worker %s", written)
			g.Expect("worker")
			g.Tell("close one")
			one.Gone(t)
			g.Answers("two")
			g.Tell("exit 1")
			two.Gone(t)
			awaitGrowth(t, written)
			const want = "contained without cgroups"
			if text := escape.Contents(g.Stderr); !strings.Contains(text, want) {
				t.Errorf("stderr does not have %q: %s", want, text)
			}
		})
	}
}

// The watcher of a gateway in a container has the number that its gateway has there. Here that number is another
// process's: a gateway that is process 1 is not the init of this host, below which everything runs.
func TestGatewayInAContainerIsFoundByItsOwnPID(t *testing.T) {
	t.Parallel()
	cmd := host.Poor(t, host.Container, binaries.mcpscope, "gateway", "--match", "*zoo*", "--", binaries.like)
	g := StartContained(t, cmd)
	if g.PID != 1 {
		t.Fatalf("the gateway is %d in the container, want 1", g.PID)
	}
	s := g.Server(binaries.Programs, "one", "plain")
	if outer, found := gateway.Around(proc.Take()).Of(os.Getpid()); found {
		t.Errorf("this test is below %s[%d]", outer.Name, outer.PID)
	}
	st, err := proc.ReadStat(s.Main.PID)
	if err != nil {
		t.Fatal(err)
	}
	outer, found := gateway.Around(proc.Take()).Of(s.Main.PID)
	if !found || outer.PID != st.PPID {
		t.Errorf("the server is below %s[%d] (%t), want %d", outer.Name, outer.PID, found, st.PPID)
	}
}

// awaitGrowth fails the test unless a process goes on to write to a file.
func awaitGrowth(t *testing.T, path string) {
	t.Helper()
	size := func() int {
		text, _ := os.ReadFile(path) // nothing yet
		return len(text)
	}
	before := size()
	if !pace.Eventually(escape.Patience, func() bool { return size() > before }) {
		t.Error("what a tool has left does not run any more")
	}
}
