// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// A contender is one way to run a server.
type contender struct {
	name string
	wrap []string // what comes before the server's own command
	user host.User
	env  []string // nil: as the user's programs have it
	// grouped: the server tells its true pid and is in a group of its own.
	grouped bool
	// ours must work; another one that does not is skipped.
	ours bool
	// watched: we watch its stdin and stdout as run does.
	watched bool
	// in is the group that it is started in; nil is our own.
	in *os.File
	// prepare makes the command where it is not wrap and the server's.
	prepare func(args []string) ([]string, error)
}

func (c contender) command(args ...string) (*exec.Cmd, error) {
	argv := append([]string{serverFile}, args...)
	if c.prepare != nil {
		var err error
		if argv, err = c.prepare(argv); err != nil {
			return nil, err
		}
	}
	argv = append(c.wrap[:len(c.wrap):len(c.wrap)], argv...)
	cmd := (&host.Host{}).Command(c.user, argv...)
	if c.env != nil {
		cmd.Env = c.env
	}
	if c.in != nil {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(c.in.Fd())
	}
	return cmd, nil
}

var bare = contender{name: "bare"}

// sameUser is the bare command as the contender's user runs it.
func (c contender) bare() contender { return contender{name: "bare", user: c.user, in: c.in} }

// The names of those that nobody has asked for a backend by name: a manager is told of the server when that runs.
const (
	runOfSystem = "run (systemd-system)"
	runOfUser   = "run (systemd-user)"
)

// automatic is mcpscope in units of both managers, as most people have it.
func automatic(b *testing.B) []contender {
	return inUnits(b, []contender{{name: runOfSystem, grouped: true}, {name: runOfUser, user: host.Tester, grouped: true}}, "run", "--name", "bench", "--")
}

// gateways are programs that mcpscope contains the servers of, in units of both managers.
func gateways(b *testing.B) []contender {
	return inUnits(b, []contender{{name: "gateway (systemd-system)"}, {name: "gateway (systemd-user)", user: host.Tester}}, "gateway", "--")
}

func inUnits(b *testing.B, all []contender, args ...string) []contender {
	b.Helper()
	for i := range all {
		c := &all[i]
		unit := host.Current(b).Start(b, host.Service{User: c.user, Argv: []string{"sleep", "infinity"}})
		dir, err := unit.Group()
		must(b, err)
		c.in, err = os.Open(dir)
		must(b, err)
		b.Cleanup(func() { _ = c.in.Close() })
		c.wrap, c.ours = append([]string{mcpscopeFile}, args...), true
	}
	return all
}

// run is mcpscope with one of its backends.
func run(backend string, u host.User, flags ...string) contender {
	argv := append([]string{mcpscopeFile, "run", "--name", "bench", "--backend", backend}, flags...)
	return contender{
		name: "run --backend " + backend, wrap: append(argv, "--"), user: u, ours: true,
		grouped: backend != "tree",
	}
}

// backends are all that run knows.
func backends(flags ...string) []contender {
	return []contender{
		run("cgroup", host.Root, flags...), run("delegated", host.Root, flags...), run("systemd-system", host.Root, flags...),
		run("systemd-user", host.Tester, flags...), run("tree", host.Root, flags...),
	}
}

const (
	scopeBySystem = "systemd-run --scope"
	scopeByUser   = "systemd-run --user --scope"
	unshared      = "bwrap --unshare-pid"
)

// inGroup is the least that a cgroup of its own costs.
func inGroup(groups string) contender {
	return contender{name: "floor: mkdir, clone3, exec (C)", wrap: []string{floorFile, groups}, grouped: true, ours: true}
}

// others are what people use instead, and the floors.
func others(groups string) []contender {
	quiet := []string{"--quiet", "--collect", "--"}
	return []contender{
		inGroup(groups),
		{name: "floor: a process in Go between", wrap: []string{wrapperFile, "1"}, ours: true},
		{name: "floor: two of them", wrap: []string{wrapperFile, "2"}, ours: true},
		{name: scopeBySystem, wrap: append([]string{"systemd-run", "--scope"}, quiet...), grouped: true},
		{
			name: scopeByUser, wrap: append([]string{"systemd-run", "--user", "--scope"}, quiet...), grouped: true,
			user: host.Tester, env: host.Tester.ManagerEnviron(),
		},
		{name: "systemd-run --pipe", wrap: append([]string{"systemd-run", "--pipe", "--wait"}, quiet...), grouped: true},
		{name: unshared, wrap: []string{
			"bwrap", "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc", "--",
		}},
		{name: "tini", wrap: []string{"tini", "-s", "--"}},
		{name: "crun", prepare: crun},
	}
}
