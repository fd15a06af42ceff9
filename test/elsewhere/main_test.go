// SPDX-License-Identifier: Apache-2.0

// Package elsewhere has servers start what is to outlive them, with the real programs: the daemons that others share,
// and the browser in which a user signs in. It runs in a booted host of its own (test/host), which has a network
// namespace with nothing but a loopback: what calls home there reaches nobody.
package elsewhere

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// patience is for programs that start a Java machine or a browser beside others that do.
const patience = 2 * time.Minute

const hierarchy = "/sys/fs/cgroup"

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) { host.Main(m, host.Options{Users: true, Build: build}) }

func build(dir string) error {
	if text, err := os.ReadFile("../../.cache/elsewhere/usr/sbin/sshd"); err == nil { // .ci/deps has unpacked it
		if err := os.WriteFile(sshd(dir), text, 0o755); err != nil {
			return err
		}
	}
	return escape.Build(dir, map[string][]string{"signin": escape.Go("./signin")})
}

// sshd is where build puts the one that no package has installed.
func sshd(dir string) string { return dir + "/sshd" }

// require skips a test for which a program is not here.
func require(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%v: .ci/deps elsewhere installs it", err)
	}
}

// server is one that has said "ready".
type server struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
	scope string
	// who was in it then
	payload, supervisor []*escape.Process
}

// start runs a command below mcpscope run.
func start(t *testing.T, u host.User, name string, env, flags []string, command ...string) *server {
	t.Helper()
	line := append([]string{mcpscope, "run", "--name", name, "--eof-grace", "300ms", "--term-grace", "300ms"}, flags...)
	cmd := host.Current(t).Command(u, append(append(line, "--"), command...)...)
	cmd.Env = append(cmd.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() }) // read as far as needed
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = out, &said
	err = cmd.Start()
	_ = out.Close() // the server's, or nobody's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // some tests have waited
	})
	if err := in.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: cmd, stdin: stdin, out: bufio.NewReader(in)}
	s.hears(t, "ready")
	found := u.Scopes(name)
	if len(found) != 1 {
		t.Fatalf("scopes of %s: %q", name, found)
	}
	s.scope = found[0]
	s.payload, s.supervisor = processes(t, s.scope+"/payload"), processes(t, s.scope+"/supervisor")
	return s
}

// hears reads the next line, which begins as wanted.
func (s *server) hears(t *testing.T, want string) {
	t.Helper()
	if line, err := s.out.ReadString('\n'); !strings.HasPrefix(line, want) {
		t.Fatalf("the server said %q (%v), want %s; stderr: %s", line, err, want, s.cmd.Stderr)
	}
}

// gone fails the test if the server has left its group, or one of the processes.
func (s *server) gone(t *testing.T, all []*escape.Process) {
	t.Helper()
	if len(all) < 2 {
		t.Errorf("%d processes of the server, so this tests nothing", len(all))
	}
	dead(t, all)
	if err := escape.AwaitRemoval(s.scope, patience); err != nil {
		t.Error(err)
	}
}

// dead fails the test if one of the processes lives on.
func dead(t *testing.T, all []*escape.Process) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for _, p := range all {
		if !p.Ended(time.Until(deadline)) {
			t.Errorf("it lives: %s", escape.Describe(p.PID))
		}
	}
}

// processes holds all that are in a group.
func processes(t *testing.T, dir string) []*escape.Process {
	t.Helper()
	pids, err := escape.GroupPids(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []*escape.Process
	for _, pid := range pids {
		if p, err := escape.OpenProcess(pid); err == nil { // it may have ended
			t.Cleanup(p.Close)
			all = append(all, p)
		}
	}
	return all
}

// commandLine is empty for a process that has ended.
func commandLine(p *escape.Process) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	return strings.TrimRight(strings.ReplaceAll(string(text), "\x00", " "), " ")
}
