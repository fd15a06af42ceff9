// SPDX-License-Identifier: Apache-2.0

// Package journal tests what mcpscope writes to systemd's journal and reads from it, with the real journald
// of a booted host (test/host).
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) {
	escape.Choose(m, "journal")
	build := func(dir string) error { return escape.Build(dir, nil) }
	host.Main(m, host.Options{Users: true, Build: build, Setups: []bed.Setup{host.JournalOnDisk}})
}

// A backend is one way to start a server, by one user.
type backend struct {
	name string
	user host.User
}

var (
	cgroup = backend{"cgroup", host.Root}
	system = backend{"systemd-system", host.Root}
	user   = backend{"systemd-user", host.Tester}
)

// command is one of mcpscope's, run by the backend's user.
func (b backend) command(t *testing.T, args ...string) *exec.Cmd {
	return host.Current(t).Command(b.user, append([]string{mcpscope}, args...)...)
}

// A server is one `mcpscope run`, whose server has said "ready".
type server struct {
	*escape.Talk
	t *testing.T
}

// start starts a server of that name, a shell script, with short graces.
func (b backend) start(t *testing.T, name string, options []string, script string) *server {
	t.Helper()
	args := append([]string{"run", "--name", name, "--backend", b.name, "--eof-grace", "300ms", "--term-grace", "300ms"}, options...)
	cmd := b.command(t, append(args, "--", "sh", "-c", script, "sh", "secret-argument")...)
	cmd.Env = append(cmd.Environ(), "SECRET=secret-variable")
	s := &server{escape.StartTalk(t, cmd, cmd.Start), t}
	s.Hear("ready")
	return s
}

// end closes stdin, and waits for the end.
func (s *server) end() {
	s.t.Helper()
	_ = s.Stdin.Close() // whether it reads or not
	_ = s.Wait()        // the journal shows how it ends
	if said := s.Said(); said != "" {
		s.t.Errorf("on the client's stderr: %s", said)
	}
}

// A result is how a command ended that is not waited for.
type result struct {
	status      int
	out, stderr string
}

func output(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// succeed runs a command that must.
func (b backend) succeed(t *testing.T, args ...string) string {
	t.Helper()
	r := output(t, b.command(t, args...))
	if r.status != 0 || r.stderr != "" {
		t.Errorf("%q: status %d; stderr: %s", args, r.status, r.stderr)
	}
	return r.out
}

// view has the fields of `ls --json` that the tests read.
type view struct {
	Name, Unit string
	Guard      int `json:"guard_pid"`
	Launcher   int `json:"launcher_pid"`
}

// listed is the one server of that name.
func listed(t *testing.T, b backend, name string) view {
	t.Helper()
	var all struct{ Servers []view }
	if err := json.Unmarshal([]byte(b.succeed(t, "ls", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all.Servers {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("%s is not listed: %+v", name, all)
	return view{}
}
