// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A clientUnit is a service whose main process is a client. When it is started again it is
// another client, with a server that must live.
type clientUnit struct {
	*host.Unit
	first, next *lines
}

// inUnit starts a cell's client in a service of its manager, to be ended by end.
func (y *yard) inUnit(end func(*clientUnit, *escape.Cell) error) func(*escape.Cell, []string) (*escape.Client, func()) {
	return func(c *escape.Cell, command []string) (*escape.Client, func()) {
		c.T.Helper()
		u := startClientUnit(c.T, y.user, host.Service{User: y.user}, command, c.PlainServer())
		return u.first.attach(c.T), func() {
			if err := end(u, c); err != nil {
				c.T.Error(err)
			}
		}
	}
}

func (u *clientUnit) stop(*escape.Cell) error  { return u.Stop() }
func (u *clientUnit) crash(*escape.Cell) error { return u.Crash() }

func (u *clientUnit) restart(c *escape.Cell) error {
	if err := u.Restart(); err != nil {
		return err
	}
	c.AddTwin(u.next.attach(c.T))
	return nil
}

// startClientUnit starts a service, as the user, whose client has the server first, and when
// it is started again the server next. In properties DIR is a directory: DIR/first/in is the first client's stdin.
func startClientUnit(t *testing.T, as host.User, service host.Service, first, next []string) *clientUnit {
	t.Helper()
	dir := host.Directory(t, as)
	u := &clientUnit{first: newLines(t, as, filepath.Join(dir, "first"), first), next: newLines(t, as, filepath.Join(dir, "next"), next)}
	const script = `mkdir "$0/ran" 2>/dev/null && d=$0/first || d=$0/next
exec "$d/command" <"$d/in" >"$d/out" 2>"$d/stderr"`
	service.Properties = append(service.Properties, "TimeoutStopSec=4min")
	for i, p := range service.Properties {
		service.Properties[i] = strings.ReplaceAll(p, "DIR", dir)
	}
	service.Argv = []string{"sh", "-c", script, dir}
	u.Unit = host.Current(t).Start(t, service)
	return u
}

// lines are a test's ends of the stdin, stdout and stderr of a client that another process
// starts. dir has the client's ends.
type lines struct {
	in, stderr *os.File
	out        int // not yet to be read: without a writer it would be at its end
}

func newLines(t *testing.T, as host.User, dir string, server []string) *lines {
	t.Helper()
	l := &lines{}
	if err := l.make(dir, server, as.UID); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lines) make(dir string, server []string, uid int) error {
	in := dir + "/in"
	out := dir + "/out"
	stderr := dir + "/stderr"
	script := dir + "/command"
	client := append([]string{programs.Client, "--group", "--"}, server...)
	text := "#!/bin/sh\nexec '" + strings.Join(client, "' '") + "'\n" // none has a quote
	steps := []func() error{
		func() error { return os.Mkdir(dir, 0o755) },
		func() error { return unix.Mkfifo(in, 0o600) },
		func() error { return unix.Mkfifo(out, 0o600) },
		func() error { return escape.WriteProgram(script, text) },
		func() (err error) { l.in, err = os.OpenFile(in, os.O_RDWR, 0); return err },
		func() (err error) {
			l.out, err = unix.Open(out, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			return err
		},
		func() (err error) { l.stderr, err = os.OpenFile(stderr, os.O_RDWR|os.O_CREATE, 0o600); return err },
	}
	for _, path := range []string{in, out, stderr} {
		steps = append(steps, func() error { return os.Chown(path, uid, uid) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// attach waits for the client's first word. Its end is the unit's business.
func (l *lines) attach(t *testing.T) *escape.Client {
	t.Helper()
	if !escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(l.out), Events: unix.POLLIN}) {
		t.Fatalf("the client has not started; stderr: %s", escape.Contents(l.stderr))
	}
	out := os.NewFile(uintptr(l.out), "out")
	l.out = -1
	return escape.Attach(t, l.in, out, l.stderr, func() {})
}
