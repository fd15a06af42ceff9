// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

var binaries struct {
	escape.Programs
	mcpscope, like, deny string
}

func TestMain(m *testing.M) {
	bed.Parallel(8)
	bed.Main(m, build)
}

func build() (func(), error) {
	return escape.BuildTemporary(func(dir string) map[string][]string {
		binaries.Programs = escape.ProgramsIn(dir)
		binaries.mcpscope, binaries.like, binaries.deny = filepath.Join(dir, "mcpscope"), filepath.Join(dir, "like"), filepath.Join(dir, "deny")
		return map[string][]string{"like": escape.Go("./like"), "deny": escape.CC("deny/deny.c")}
	})
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

// gateway starts one, in a group of its own.
func (w *world) gateway(flags ...string) *Gateway {
	w.T.Helper()
	line := append([]string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", w.explain}, flags...)
	return w.start(append(line, "--", binaries.like, "gateway", "run"))
}

func (w *world) start(line []string) *Gateway {
	w.T.Helper()
	cmd := w.Command(line...)
	group := w.Unique("gateway")
	g := Start(w.T, cmd, func() error { return escape.StartIn(group, cmd) })
	if slices.Contains(line, "--explain") {
		g.Explain = w.explain
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
		w.T.Errorf("mcpscope %q: %v, status %v: %s", args, err, o.Status, o.Stderr)
	}
	return o.Stdout
}

// watchers are the processes beside a gateway: the watcher and its standby.
func (w *world) watchers() []*escape.Process {
	w.T.Helper()
	pids, err := escape.GroupPids(filepath.Join(w.slice(), "leaving"))
	if err != nil {
		w.T.Fatal(err)
	}
	var all []*escape.Process
	for _, pid := range pids {
		if text, _ := os.ReadFile(filepath.Join("/proc", itoa(pid), "cmdline")); !strings.HasPrefix(string(text), "mcpscope\x00watch\x00") {
			continue // it removes a group
		}
		if p, err := escape.OpenProcess(pid); err == nil { // otherwise it has ended since
			w.T.Cleanup(p.Close)
			all = append(all, p)
		}
	}
	return all
}

// contained fails the test unless all members are in one group of a server's.
func (w *world) contained(s *Server) string {
	w.T.Helper()
	path, err := bed.ProcessPath(s.Main.PID)
	if err != nil {
		w.T.Fatal(err)
	}
	if !strings.Contains(path, "/mcp.slice/0/mcp-") || filepath.Base(path) != "payload" {
		w.T.Errorf("%s is in %s", s.Name, path)
	}
	return path
}

// dead fails the test for each member that is left, and for each group.
func (w *world) dead(s *Server) {
	w.T.Helper()
	if n := s.UntilDead(escape.Patience); n > 0 {
		w.T.Errorf("%s: %d members left:\n\t%s", s.Name, n, strings.Join(s.Survivors(), "\n\t"))
	}
}

// clean fails the test for each group that is left. Who watches the gateway is beside them, as
// long as what it has left lives.
func (w *world) clean() {
	w.T.Helper()
	for _, dir := range escape.Servers(w.slice(), "*", "*") {
		if err := escape.AwaitRemoval(dir, escape.Patience); err != nil {
			w.T.Error(err)
		}
	}
}

// lives fails the test if a process that is to live does not.
func lives(t *testing.T, what string, p *escape.Process) {
	t.Helper()
	if p.Ended(0) {
		t.Errorf("%s is dead", what)
	}
}
