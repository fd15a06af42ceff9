// SPDX-License-Identifier: Apache-2.0

// Package systemd tests gateways that are services of a real systemd, in a booted host of the
// test run's own (test/host).
package systemd

import (
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
	bed.Parallel(6) // a manager starts one unit after the other
	host.Main(m, host.Options{Users: true, Build: build, Writable: escape.TableFiles()})
}

func build(dir string) error {
	if err := escape.AppendTable(""); err != nil { // where the host finds it
		return err
	}
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
	t       *testing.T
	user    host.User
	explain string
}

// serve starts one, which systemd calls started when the gateway says so.
func serve(t *testing.T, u host.User, flags string, properties ...string) *service {
	t.Helper()
	dir, err := os.MkdirTemp(host.Shared, "gateway.")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) }) // with the host, at the latest
		err = os.Chown(dir, u.UID, u.UID)
	}
	in, out := dir+"/in", dir+"/out"
	for _, path := range []string{in, out} {
		if err == nil {
			err = unix.Mkfifo(path, 0o666)
		}
		if err == nil {
			err = os.Chown(path, u.UID, u.UID)
		}
	}
	var ends [2]*os.File
	for i, path := range []string{in, out} {
		if err == nil {
			ends[i], err = os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0) // so that neither has an end
		}
	}
	stderr, memoryErr := os.Create(dir + "/stderr")
	if err == nil {
		err = memoryErr
	}
	if err == nil {
		err = stderr.Chown(u.UID, u.UID)
	}
	if err != nil {
		t.Fatal(err)
	}
	explain := dir + "/explain"
	script := fmt.Sprintf(`exec %s/mcpscope gateway --explain %s %s -- %s/like gateway run <%s >%s 2>>%s`, host.Shared, explain, flags, host.Shared, in, out, dir+"/stderr")
	properties = append([]string{"Type=notify", "KillMode=mixed", "TimeoutStopSec=20s"}, properties...)
	s := &service{t: t, user: u, explain: explain}
	s.Unit = host.Current(t).Start(t, host.Service{User: u, Properties: properties, Argv: []string{"sh", "-c", script}})
	s.Gateway = gateway.Attach(t, ends[0], ends[1], stderr)
	s.Gateway.Explain = explain
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(explain) // none, if it never came so far
			t.Logf("explained:\n%s\nstderr: %s", text, escape.Contents(stderr))
		}
	})
	return s
}

// server has it start one, which must be in a scope of its own then.
func (s *service) server(name, mode string) (*gateway.Server, string) {
	s.t.Helper()
	m := s.Gateway.Server(programs, name, mode)
	path, err := bed.ProcessPath(m.Main.PID)
	if err != nil || !strings.Contains(path, "/mcp.slice/mcp-") || !strings.HasSuffix(path, ".scope/payload") {
		s.t.Errorf("%s is in %s (%v)", name, path, err)
	}
	return m, filepath.Dir("/sys/fs/cgroup" + path)
}

// gone waits until all of a server has gone, and its scope.
func (s *service) gone(what string, m *gateway.Server, scope string) {
	s.t.Helper()
	if n := m.UntilDead(escape.Patience); n > 0 {
		s.t.Errorf("%s: %d left:\n\t%s", what, n, strings.Join(m.Survivors(), "\n\t"))
	}
	if err := escape.AwaitRemoval(scope, escape.Patience); err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
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

func (s *service) want(property, value string) {
	s.t.Helper()
	if got, err := s.Property(property); got != value || err != nil {
		s.t.Errorf("%s=%s, want %s (%v)", property, got, value, err)
	}
}

// watcherScopes are the scopes of the processes beside gateways.
func watcherScopes(u host.User) []string {
	found, _ := filepath.Glob(u.Slice() + "/mcpscope-gateway-*.scope") // the pattern is valid
	return found
}
