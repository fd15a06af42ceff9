// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

var binaries struct {
	escape.Programs
	mcpscope, like, deny, wear, show, late string
}

func TestMain(m *testing.M) {
	host.Stage()
	escape.Choose(m, "gateway")
	bed.Parallel(8)
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		binaries.Programs = escape.ProgramsIn(dir)
		in := func(name string) string { return filepath.Join(dir, name) }
		binaries.mcpscope = in("mcpscope")
		binaries.like = in("like")
		binaries.deny = in("deny")
		binaries.wear = in("wear")
		binaries.show = in("show")
		binaries.late = in("late")
		return map[string][]string{
			"late": escape.Go("./late"), "like": escape.Go("./like"), "deny": escape.CC("deny/deny.c"),
			"wear": escape.CC("../transparent/state/wear.c"), "show": escape.CC("../transparent/state/show.c"),
		}
	}))
}

// clients is the directory of clients of npm. Tests that use it are slow.
func clients(t *testing.T) string {
	t.Helper()
	if escape.Core() {
		t.Skip("it needs clients of npm: TESTS_FULL=1 or TESTS_SLICE runs it")
	}
	return escape.Clients(t, "bin", "node")
}

// A world is one in which root runs gateways, with groups below mcp.slice.
type world struct {
	*escape.World
	explain string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{escape.NewWorld(t, binaries.Programs), filepath.Join(t.TempDir(), "explain")}
}

func (w *world) slice() string { return filepath.Join(w.Dir, "mcp.slice", "0") }

// line is the command line of a gateway below mcpscope gateway.
func (w *world) line(command []string, flags ...string) []string {
	line := append([]string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", w.explain}, flags...)
	return append(append(line, "--"), command...)
}

// gateway starts one, in a group of its own.
func (w *world) gateway(flags ...string) *Gateway {
	w.T.Helper()
	return w.start(w.line([]string{binaries.like, "gateway", "run"}, flags...))
}

func (w *world) start(line []string) *Gateway {
	w.T.Helper()
	cmd := w.Command(line...)
	group := w.Unique("gateway")
	g := Start(w.T, cmd, func() error { return escape.StartIn(group, cmd) })
	if slices.Contains(line, "--explain") {
		g.Explain = w.explain
		g.Groups = w.slice()
	}
	w.T.Cleanup(func() {
		if w.T.Failed() {
			text, _ := os.ReadFile(w.explain) // none was asked for
			w.T.Logf("explained:\n%s\nstderr: %s\nprocesses: %s", text, escape.Contents(g.Stderr), escape.Tree(w.Dir))
		}
	})
	return g
}

// run runs a command of mcpscope in the world.
func (w *world) run(args ...string) string {
	w.T.Helper()
	o, err := escape.Finish(w.Dir, w.Command(append([]string{binaries.mcpscope}, args...)...))
	if err != nil || o.Status != 0 {
		w.T.Errorf("mcpscope %q: %v, status %v: %s%s", args, err, o.Status, o.Stdout, o.Stderr)
	}
	return o.Stdout
}

// doctor returns the output of doctor. Its status is also that of the gateways of other tests.
func (w *world) doctor() string {
	w.T.Helper()
	o, err := escape.Finish(w.Dir, w.Command(binaries.mcpscope, "doctor"))
	if err != nil {
		w.T.Errorf("doctor: %v", err)
	}
	return o.Stdout
}

// notes returns the stderr of a command of mcpscope.
func (w *world) notes(args ...string) string {
	w.T.Helper()
	o, err := escape.Finish(w.Dir, w.Command(append([]string{binaries.mcpscope}, args...)...))
	if err != nil || o.Status != 0 {
		w.T.Errorf("mcpscope %q: %v, status %v: %s", args, err, o.Status, o.Stderr)
	}
	return o.Stderr
}

// watchers and guards are the processes beside a gateway.
func (w *world) watchers() []*escape.Process { return w.called("mcpscope-watch") }
func (w *world) guards() []*escape.Process   { return w.called("mcpscope-guard") }

func (w *world) called(name string) []*escape.Process {
	w.T.Helper()
	pids, err := escape.GroupPids(filepath.Join(w.slice(), "guards"))
	if err != nil {
		w.T.Fatal(err)
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		comm, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		return string(comm) != name+"\n"
	})
	return w.open(pids)
}

// open are those that have not ended yet.
func (w *world) open(pids []int) (all []*escape.Process) {
	for _, pid := range pids {
		if p, err := escape.OpenProcess(pid); err == nil {
			w.T.Cleanup(p.Close)
			all = append(all, p)
		}
	}
	return all
}

// await returns one of these processes as soon as there is one.
func (w *world) await(find func() []*escape.Process) (p *escape.Process) {
	w.T.Helper()
	if !pace.Eventually(escape.Patience, func() bool {
		if all := find(); len(all) > 0 {
			p = all[0]
		}
		return p != nil
	}) {
		w.T.Fatal("no such process is beside the gateway")
	}
	return p
}

// kill kills one of these processes as soon as there is one.
func (w *world) kill(find func() []*escape.Process) {
	w.T.Helper()
	p := w.await(find)
	if p.Signal(unix.SIGKILL); !p.Ended(escape.Patience) {
		w.T.Fatal("it outlived SIGKILL")
	}
}

// members are all that are in groups of servers.
func (w *world) members() []*escape.Process {
	w.T.Helper()
	var all []int
	for _, dir := range escape.Servers(w.slice(), "*", "*") {
		pids, err := escape.GroupPids(dir)
		if err != nil {
			w.T.Error(err)
		}
		all = append(all, pids...)
	}
	return w.open(all)
}

// empty fails the test unless nothing is left of a gateway in that group.
func (w *world) empty(group, when string, args ...any) {
	w.T.Helper()
	left := func() []int {
		pids, _ := escape.GroupPids(filepath.Join(w.slice(), "guards")) // there may be none
		more, _ := escape.GroupPids(group)
		return append(pids, more...)
	}
	if !pace.Eventually(escape.Patience, func() bool { return len(left()) == 0 }) {
		w.T.Fatalf(when+": left: %v: %s", append(args, left(), escape.Tree(w.Dir))...)
	}
}

// clean fails the test for each group that is left. The gateway's watchers are beside them, as
// long as a process that it has left lives.
func (w *world) clean() {
	w.T.Helper()
	escape.WantNoServers(w.T, w.slice(), "*", escape.Patience)
}

// contained fails the test unless the main process is in a server's group.
func (w *world) contained(s *Server) string {
	w.T.Helper()
	path := mustPath(w.T, s.Main.PID)
	if !strings.Contains(path, "/mcp.slice/0/mcp-") {
		w.T.Errorf("%s is in %s", s.Name, path)
	}
	return path
}

func mustPath(t *testing.T, pid int) string {
	t.Helper()
	path, err := bed.ProcessPath(pid)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
