// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// TestEscape holds the promise that nothing survives and nothing else dies for servers below a
// gateway, for each way to stay alive and each way to end.
func TestEscape(t *testing.T) {
	t.Parallel()
	ends := append(Ends(), End{Name: "gw-cgroup", Gateway: true, Tools: true, Do: killGroup})
	FillTable(t, "below a gateway", escape.Backend{Name: "cgroup"}, Modes(t, binaries.Programs), ends, cell)
}

// killGroup is the last step of a unit's stop.
func killGroup(c *Cell) {
	c.T.Helper()
	if err := bed.Kill(filepath.Join(bed.Root(c.T), mustPath(c.T, c.G.PID)), escape.Patience); err != nil {
		c.T.Error(err)
	}
}

func cell(t *testing.T, m escape.Mode, e End) escape.Result {
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--eof-grace", "200ms", "--term-grace", "200ms")
	c := &Cell{T: t, End: e, G: g, Programs: binaries.Programs, Run: func(args ...string) { w.run(args...) }}
	options := append([]string{"--sibling", w.Seen(w.Unique("sibling")), "--scratch", w.Seen(w.Unique("scratch"))}, m.Nice()...)
	r := c.Judge(strings.Join(options, " ")+" ", m.Name, w.Root, w.Plain("beside", w.Unique("beside")))
	w.clean()
	return r
}

// The guard of a start is the watcher's child where the first process of a container may not reap, such as a shell. It
// must not stay as a zombie.
func TestWatcherReapsGuards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	container := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", `"$@"; exit`, "sh"}
	client := []string{"sh", "-c", "sleep infinity & sleep infinity & sleep infinity & cat"}
	cmd := w.Command(append(container, w.line(client, "--match", "sleep")...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Start(w.Unique("container"), cmd)
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // of a test that has failed
	taken := func() int {
		text, _ := os.ReadFile(w.explain) // none before the first program
		return strings.Count(string(text), " taken as ")
	}
	if !pace.Eventually(escape.Patience, func() bool { return taken() == 3 }) {
		t.Errorf("%d of 3 servers are taken", taken())
	}
	watcher := w.await(w.watchers)
	var zombies []string
	if !pace.Eventually(escape.Patience, func() bool {
		zombies = zombiesOf(t, watcher.PID)
		return len(zombies) == 0
	}) {
		t.Errorf("the watcher has not reaped %q", zombies)
	}
	_ = stdin.Close() // the client ends
	_ = cmd.Wait()    // and then no process of the container is left, also none that would stop a server
	w.run("sweep")
	w.clean()
}

// zombiesOf lists the children of a process that have ended.
func zombiesOf(t *testing.T, parent int) (all []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil || len(lists) == 0 {
		t.Fatalf("no children of %d can be listed (%v)", parent, err)
	}
	for _, list := range lists {
		pids, _ := os.ReadFile(list) // a thread may have ended
		for _, pid := range strings.Fields(string(pids)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat") // it may have been reaped
			if strings.Contains(string(stat), ") Z ") {
				all = append(all, string(stat))
			}
		}
	}
	return all
}

// Without guards a server is an orphan, and a sweep also finds members that have moved away.
func TestSweepFindsWhoMovedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--term-grace", "200ms")
	s := g.Server(binaries.Programs, "a", "--sibling "+w.Seen(w.Unique("sibling"))+" move-sibling")
	if err := escape.KillTogether(w.await(w.guards), w.await(w.watchers)); err != nil {
		t.Error(err)
	}
	g.Own.Signal(unix.SIGKILL)
	if len(s.Running()) < 2 {
		t.Errorf("without guards %q live: then this tests nothing", s.Running())
	}
	w.run("sweep")
	s.Gone(t)
	w.clean()
}
