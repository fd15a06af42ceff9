package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A server is one that mcpscope runs for a client, in a world of its own.
type server struct {
	*client
	world      *world
	members    *members
	group      string
	supervisor *process
}

// startServer starts command (with --register added) under mcpscope with the
// flags, below a client with the options, and waits until it is ready.
func startServer(w *world, options, flags []string, command ...string) *server {
	w.t.Helper()
	s := &server{world: w, members: newMembers(w.t)}
	line := append([]string{binaries.mcpscope, "run", "--name", "server"}, flags...)
	line = append(append(line, "--"), command[0], "--register", s.members.address)
	s.client = w.newClient(w.unique("client"), options, append(line, command[1:]...))
	if err := s.members.untilReady(patience); err != nil {
		w.t.Fatalf("%v; client: %q; stderr: %s", err, s.client.lines, contents(s.client.stderr))
	}
	s.group, s.supervisor = w.find(s.members)
	return s
}

// startProbe is startServer for a probe in a new world.
func startProbe(t *testing.T, flags []string, args ...string) *server {
	t.Helper()
	return startServer(newWorld(t), []string{"--group"}, flags, append([]string{binaries.probe}, args...)...)
}

// find returns the group and the supervisor of the members.
func (w *world) find(m *members) (group string, supervisor *process) {
	w.t.Helper()
	found, _ := filepath.Glob(filepath.Join(w.dir, "mcp.slice", "0", "mcp-*-"+m.id)) // the pattern is valid
	if len(found) != 1 {
		w.t.Fatalf("%d groups with the id %q", len(found), m.id)
	}
	pids, err := groupPids(filepath.Join(found[0], "supervisor"))
	if err != nil || len(pids) != 1 {
		w.t.Fatalf("the supervisor's group has %v, %v", pids, err)
	}
	supervisor, err = openProcess(pids[0])
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(supervisor.close)
	return found[0], supervisor
}

// dead waits until every member is dead and launcher and supervisor are gone,
// with their group.
func (s *server) dead(limit time.Duration) {
	s.t.Helper()
	if n := s.members.untilDead(limit); n > 0 {
		s.t.Errorf("%d members left after %v:\n\t%s", n, limit, strings.Join(s.members.survivors(), "\n\t"))
	}
	s.gone()
}

func (s *server) gone() {
	s.t.Helper()
	for name, p := range map[string]*process{"launcher": s.client.server, "supervisor": s.supervisor} {
		if !p.ended(patience) {
			s.t.Errorf("the %s lives: %s", name, describe(p.pid))
		}
	}
	s.world.clean()
}

// signals are those that the members have got so far, by pid.
func (s *server) signals() map[int][]unix.Signal {
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	return s.members.signals()
}

// signals is called under the lock.
func (m *members) signals() map[int][]unix.Signal {
	got := make(map[int][]unix.Signal)
	for _, said := range m.said {
		var pid, sig int
		if n, _ := fmt.Sscanf(said.text, "signal %d %d", &pid, &sig); n == 2 {
			got[pid] = append(got[pid], unix.Signal(sig))
		}
	}
	return got
}

// told waits until n members have got a signal and returns when the first did.
func (s *server) told(n int, limit time.Duration) time.Time {
	s.t.Helper()
	if !s.members.wait(limit, func() bool { return len(s.members.signals()) >= n }) {
		s.t.Errorf("%d of %d members got a signal in %v: %v", len(s.signals()), n, limit, s.signals())
		return time.Now()
	}
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	for _, said := range s.members.said {
		if strings.HasPrefix(said.text, "signal ") {
			return said.when
		}
	}
	return time.Now()
}

// wantAsked: each of n members got exactly this one signal.
func (s *server) wantAsked(n int, want unix.Signal) {
	s.t.Helper()
	got := s.signals()
	for pid, all := range got {
		if len(all) != 1 || all[0] != want {
			s.t.Errorf("process %d got %v, want %v once", pid, all, want)
		}
	}
	if len(got) != n {
		s.t.Errorf("%d members got a signal, want %d", len(got), n)
	}
}

// An outcome is how a command ended, and what it said.
type outcome struct {
	stdout, stderr string
	status         syscall.WaitStatus
}

// run runs a command to its end. Its output goes into files: a process that it
// left could hold a pipe open.
func (w *world) run(cmd *exec.Cmd) outcome {
	w.t.Helper()
	o, err := w.tryRun(cmd)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// tryRun is run for goroutines, which must not end the test.
func (w *world) tryRun(cmd *exec.Cmd) (outcome, error) {
	out, err := openMemory("stdout")
	if err != nil {
		return outcome{}, err
	}
	defer out.Close()
	errs, err := openMemory("stderr")
	if err != nil {
		return outcome{}, err
	}
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	if err := startIn(w.dir, cmd); err != nil {
		return outcome{}, err
	}
	p, err := openProcess(cmd.Process.Pid)
	if err != nil {
		return outcome{}, err
	}
	defer p.close()
	if !p.ended(patience) {
		what := describe(p.pid)
		_ = cmd.Process.Kill() // as good as ended
		err = fmt.Errorf("%q did not end: %s; stderr: %s", cmd.Args, what, contents(errs))
	}
	if werr := cmd.Wait(); cmd.ProcessState == nil {
		return outcome{}, werr
	}
	return outcome{contents(out), contents(errs), cmd.ProcessState.Sys().(syscall.WaitStatus)}, err
}

// mcpscope is a command in the world.
func (w *world) mcpscope(args ...string) *exec.Cmd {
	return w.command(append([]string{binaries.mcpscope}, args...)...)
}
