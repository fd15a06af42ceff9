// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// ends are those of any host, and the unit's. With the gateway systemd ends what its tools have left.
func ends() []gateway.End {
	all := append(gateway.Ends(), gateway.End{Name: "unit-stop", Gateway: true}, gateway.End{Name: "unit-crash", Gateway: true})
	for i := range all {
		all[i].Tools = all[i].Gateway
	}
	return all
}

// TestGatewayEscape holds the promise that nothing survives and nothing else dies for servers of a
// gateway that is a service.
func TestGatewayEscape(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		modes := slices.DeleteFunc(gateway.Modes(t, programs), flooding)
		ends := ends()
		b := escape.Backend{Name: "systemd-system"}
		if u.UID != 0 {
			b = escape.Backend{Name: "systemd-user", Refused: map[string]error{"move-root": unix.EACCES}}
		}
		y := newYard(t, u)
		gateway.FillTable(t, "escape below a gateway that is a service", b, modes, ends, y.cell)
	})
}

// flooding: orphans by the thousand are for the manager to reap, as without mcpscope. As it reaps before
// it answers (systemd 252), it does not stop a unit meanwhile.
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
	site.View = site.Dir
	site.Command = func(args ...string) *exec.Cmd { return host.Current(t).Command(y.user, args...) }
	site.Make()
	var properties []string
	if e.Name == "unit-crash" {
		properties = []string{"Restart=always"}
	}
	s := serve(t, y.user, "--eof-grace=300ms --term-grace=300ms", append(properties, "TimeoutStopSec=20s")...)
	switch e.Name {
	case "unit-stop":
		e.Do = func(*gateway.Cell) { s.stop() }
	case "unit-crash":
		e.Do = func(*gateway.Cell) { s.crash() }
	}
	c := &gateway.Cell{
		T: t, G: s.Gateway, End: e, Programs: programs, Run: s.run,
		Forgets: m.Name == "threaded", // systemd 252 can't list the processes of a threaded group
	}
	options := fmt.Sprintf("--sibling %s --scratch %s ", site.Group("sibling"), site.Group("scratch"))
	r := c.Judge(options, m.Name, site.Plain("beside", site.Group("beside")))
	if e.Name == "unit-crash" {
		s.Up()
		s.works()
	}
	return r
}

// crash returns when systemd has started the gateway again.
func (s *service) crash() {
	s.t.Helper()
	if err := s.Crash(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.AwaitRestart(); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a command of mcpscope as the gateway's user.
func (s *service) run(args ...string) {
	s.t.Helper()
	cmd := host.Current(s.t).Command(s.user, append([]string{host.Shared + "/mcpscope"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Errorf("mcpscope %q: %v: %s", args, err, out)
	}
}
