// SPDX-License-Identifier: Apache-2.0

// Package systemd tests gateways that are services of a real systemd, in a booted host of the
// test run's own (test/host).
package systemd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

var programs = escape.ProgramsIn(host.Shared)

func TestMain(m *testing.M) {
	escape.Choose(m, "gateway/systemd")
	bed.Parallel(6) // a manager starts one unit after the other
	host.Main(m, host.Options{Users: true, Build: build, Writable: escape.TableFiles()})
}

func build(dir string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	defer os.Chdir(here)
	if err := os.Chdir(".."); err != nil { // escape finds its sources beside the package above
		return err
	}
	return escape.Build(dir, map[string][]string{"like": escape.Go("./like")})
}

// A service is a unit whose main process is a gateway.
type service struct {
	*host.Unit
	*gateway.Gateway
	t    *testing.T
	user host.User
}

// pipes are two that a service opens by name, and a file for its stderr, in a directory of the user's.
func pipes(t *testing.T, u host.User) (dir string, in, out, stderr *os.File) {
	t.Helper()
	dir = host.Directory(t, u)
	var err error
	open := func(name string) *os.File {
		flags := os.O_RDWR | os.O_CREATE
		if name != "stderr" {
			err = errors.Join(err, unix.Mkfifo(dir+"/"+name, 0o666))
			flags = os.O_RDWR | unix.O_NONBLOCK // so that neither reaches end of file
		}
		f, openErr := os.OpenFile(dir+"/"+name, flags, 0o666)
		err = errors.Join(err, openErr, os.Chown(dir+"/"+name, u.UID, u.UID))
		return f
	}
	in = open("in")
	out = open("out")
	stderr = open("stderr")
	if err != nil {
		t.Fatal(err)
	}
	return dir, in, out, stderr
}

// serve starts one whose servers are known before they run, which systemd calls started when the gateway says so.
func serve(t *testing.T, u host.User, flags string, properties ...string) *service {
	t.Helper()
	dir, in, out, stderr := pipes(t, u)
	if !strings.Contains(flags, "--match") {
		flags += " --match zoo"
	}
	script := fmt.Sprintf(`exec %[1]s/mcpscope gateway --explain %[2]s/explain %[3]s -- %[1]s/like gateway run <%[2]s/in >%[2]s/out 2>>%[2]s/stderr`, host.Shared, dir, flags)
	properties = append([]string{"Type=notify", "KillMode=mixed"}, properties...)
	s := &service{t: t, user: u}
	s.Unit = host.Current(t).Start(t, host.Service{User: u, Properties: properties, Argv: []string{"sh", "-c", script}})
	s.Gateway = gateway.Attach(t, in, out, stderr)
	s.Gateway.Explain = dir + "/explain"
	s.Gateway.Groups = u.Slice()
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(dir + "/explain") // none, if it never came so far
			t.Logf("explained:\n%s\nstderr: %s", text, escape.Contents(stderr))
		}
	})
	return s
}

// server has it start one, which must be in a group of its own then, by itself.
func (s *service) server(name, mode string) *gateway.Server {
	s.t.Helper()
	m := s.Gateway.Server(programs, name, mode)
	path, err := bed.ProcessPath(m.Main.PID)
	if err != nil || !strings.Contains(path, "/mcp-") || filepath.Base(path) != "payload" {
		s.t.Errorf("%s is in %s (%v)", name, path, err)
	}
	return m
}

// isMain fails the test unless the gateway itself is the unit's main process, in its group.
func (s *service) isMain() {
	s.t.Helper()
	pid, err := s.MainPID()
	if err != nil || pid != s.PID {
		s.t.Errorf("MainPID is %d, the gateway %d (%v)", pid, s.PID, err)
	}
	if group, err := s.Unit.Group(); err != nil || "/sys/fs/cgroup"+s.Gateway.Group != group {
		s.t.Errorf("the gateway is in %s, its unit %s (%v)", s.Gateway.Group, group, err)
	}
}

// works: the gateway that was started again is the unit's main process, and has servers that answer.
func (s *service) works() *gateway.Server {
	s.t.Helper()
	s.isMain()
	m := s.server("fresh", "setsid")
	s.Answers("fresh")
	return m
}

func (s *service) stop() {
	s.t.Helper()
	if err := s.Unit.Stop(); err != nil {
		s.t.Error(err)
	}
}

// watcherScopes are the scopes of the processes beside gateways.
func watcherScopes(u host.User) []string {
	found, _ := filepath.Glob(u.Slice() + "/mcpscope-gateway-*.scope") // the pattern is valid
	return found
}
