// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// unitEnds are what happens to the unit.
var unitEnds = map[string]func(*service) error{
	"unit-stop":    func(s *service) error { return s.Stop() },
	"unit-restart": func(s *service) error { return s.Unit.Restart() },
	"unit-crash": func(s *service) error {
		if err := s.Crash(); err != nil {
			return err
		}
		return s.AwaitRestart()
	},
}

// ends are those of any host, and the unit's. With the gateway systemd ends what its tools have left.
func ends() []gateway.End {
	all := gateway.Ends()
	for _, name := range []string{"unit-stop", "unit-restart", "unit-crash"} {
		all = append(all, gateway.End{Name: name, Gateway: true})
	}
	for i := range all {
		all[i].Tools = all[i].Gateway
	}
	return all
}

// TestGatewayEscape holds the promise that nothing survives and nothing else dies for servers of a
// gateway that is a service: unless all is asked for, for some of the ways to stay alive.
func TestGatewayEscape(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		modes, ends := slices.DeleteFunc(gateway.Modes(t, programs), flooding), ends()
		b := escape.Backend{Name: "systemd-system"}
		if u.UID != 0 {
			b = escape.Backend{Name: "systemd-user", Refused: map[string]error{"move-root": unix.EACCES}}
		}
		if !escape.Full() {
			modes = escape.Named(t, modes, "ignore-both", "move-sibling")
			ends = slices.DeleteFunc(ends, func(e gateway.End) bool { return e.Name == "stop" || strings.HasPrefix(e.Name, "gw-") })
		}
		y := newYard(t, u)
		gateway.FillTable(t, "escape below a gateway that is a service", b, modes, ends, y.cell)
	})
}

// flooding: orphans by the thousand are for the manager to reap, as without mcpscope. As it reaps before
// it answers (systemd 252), nobody can ask it for a unit's end meanwhile.
func flooding(m escape.Mode) bool { return m.Name == "hop" || m.Name == "hop-storm" }

// A yard is a unit with groups that members move to.
type yard struct {
	user  host.User
	dir   string
	sites atomic.Int32
}

func newYard(t *testing.T, u host.User) *yard {
	t.Helper()
	dir, err := host.Current(t).Start(t, host.Service{User: u, Argv: []string{"sleep", "infinity"}}).Group()
	if err != nil {
		t.Fatal(err)
	}
	return &yard{user: u, dir: dir}
}

func (y *yard) cell(t *testing.T, m escape.Mode, e gateway.End) escape.Result {
	site := &escape.Site{T: t, Programs: programs, UID: y.user.UID, Dir: filepath.Join(y.dir, fmt.Sprint("site.", y.sites.Add(1)))}
	site.View, site.Command = site.Dir, func(args ...string) *exec.Cmd { return host.Current(t).Command(y.user, args...) }
	site.Make()
	s := serve(t, y.user, "--eof-grace=300ms --term-grace=300ms", propertiesOf(e.Name)...)
	if act := unitEnds[e.Name]; act != nil {
		e.Do = func(*gateway.Cell) {
			if err := act(s); err != nil {
				t.Error(err)
			}
		}
	}
	c := &gateway.Cell{
		T: t, G: s.Gateway, End: e, Groups: y.user.Slice(), Explain: s.explain, Programs: programs,
		Run:     func(args ...string) { s.run(args...) },
		Forgets: m.Name == "threaded", // systemd 252 can't list the processes of a threaded group
	}
	options := fmt.Sprintf("--sibling %s --scratch %s ", site.Group("sibling"), site.Group("scratch"))
	r := c.Judge(options, m.Name, site.Plain("beside", site.Group("beside")))
	if e.Name == "unit-restart" || e.Name == "unit-crash" {
		s.works()
	}
	return r
}

func propertiesOf(end string) []string {
	if end == "unit-crash" {
		return []string{"Restart=always"}
	}
	return nil
}

// run runs a command of mcpscope as the gateway's user.
func (s *service) run(args ...string) {
	s.t.Helper()
	cmd := host.Current(s.t).Command(s.user, append([]string{host.Shared + "/mcpscope"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Errorf("mcpscope %q: %v: %s", args, err, out)
	}
}

// works: the gateway that was started again has servers that answer, in scopes of their own.
func (s *service) works() {
	s.t.Helper()
	s.Up()
	s.isMain()
	s.server("fresh", "setsid")
	s.Tell("ask fresh")
	if got := s.Expect("answer fresh"); got != "ping" {
		s.t.Errorf("the new server says %q", got)
	}
}
