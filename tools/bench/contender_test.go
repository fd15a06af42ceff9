// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

const serverFile = host.Shared + "/server"

// A program in Shared is in memory, where page faults take longer than on the disk, where bwrap and an installed one are.
var mcpscopeFile = cmp.Or(escape.Installed(), host.Shared+"/mcpscope")

// A contender is one way to run a server.
type contender struct {
	name string
	wrap []string // what precedes the server's own command
	user host.User
	env  []string // nil: as the user's programs have it
	// grouped: the server prints its pid in this namespace and is in a group of its own, which is removed.
	grouped bool
	// in is the group that it is started in; nil is this process's.
	in *os.File
	// startsOnly: it differs from another one in its start alone.
	startsOnly bool
	// lacks is the reason for which it cannot run here, or "".
	lacks string
}

const (
	bare      = "bare"
	bwrap     = "bwrap --unshare-pid"
	runCgroup = "run --backend cgroup"
)

// contenders are defined here alone. Those that mcpscope is compared with come first.
func contenders(b *testing.B) []contender {
	groups, err := bed.OwnGroup()
	must(b, err)
	systemdRun := []string{"systemd-run", "--scope", "--quiet", "--collect", "--"}
	all := []contender{
		{name: bare},
		{name: bwrap, wrap: []string{"bwrap", "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/",
			"--proc", "/proc", "--"}},
		{name: "systemd-run --scope", wrap: systemdRun, grouped: true},
		{
			name: "systemd-run --user --scope", wrap: slices.Insert(slices.Clone(systemdRun), 1,
				"--user"), grouped: true,
			user: host.Tester, env: host.Tester.ManagerEnviron(),
		},
		{name: "floor: mkdir, clone3, exec (C)", wrap: []string{host.Shared + "/floor", groups}, grouped: true},
	}
	run := func(name string, u host.User, flags ...string) contender {
		return contender{
			name: name, wrap: slices.Concat([]string{mcpscopeFile, "run", "--name", "bench"}, flags,
				[]string{"--"}), user: u,
			grouped: true,
		}
	}
	cgroup := run(runCgroup, host.Root, "--backend", "cgroup")
	tree := run("run --backend tree", host.Root,
		"--backend", "tree")
	tree.grouped = false
	system := run("run (systemd-system)", host.Root)
	user := run("run (systemd-user)", host.Tester)
	comments := run("run, settings of comments", host.Root)
	comments.env = settingsEnv(b, "comments", example(b))
	limits := run("run, limits by flags", host.Root, "--memory-max", "1G", "--pids-max", "100")
	limits.lacks = lackedControllers(b, "memory", "pids")
	settings := run("run, settings that set something", host.Root)
	settings.env = settingsEnv(b, "sets", "[defaults]\nterm-grace = \"4s\"\n")
	ofServer := run("run, settings of a server", host.Root)
	ofServer.env = settingsEnv(b, "of-server", "[server.bench]\nterm-grace = \"4s\"\n")
	session := run("run (login session)", host.Tester)
	login := host.Current(b).Login(b, host.Tester)
	session.env = append(login.Command(session.wrap...).Env, "PATH="+os.Getenv("PATH"))
	session.in, err = os.Open(login.Group)
	must(b, err)
	b.Cleanup(func() { _ = session.in.Close() })
	for _, c := range []*contender{&comments, &limits, &settings, &ofServer, &session} {
		c.startsOnly = true
	}
	for _, c := range []*contender{&system, &user, &comments, &limits, &settings, &ofServer} { // in a unit of that manager, as most people have it
		unit := host.Current(b).Start(b, host.Service{User: c.user, Argv: []string{"sleep", "infinity"}})
		dir, err := unit.Group()
		must(b, err)
		c.in, err = os.Open(dir)
		must(b, err)
		b.Cleanup(func() { _ = c.in.Close() })
	}
	return append(all, cgroup, system, user, session, tree, comments, limits, settings, ofServer)
}

// example is the file of settings that a package has.
func example(b *testing.B) string {
	text, err := os.ReadFile("../../packaging/mcpscope.toml")
	must(b, err)
	return string(text)
}

// settingsEnv is an environment with a user's settings file.
func settingsEnv(b *testing.B, name, text string) []string {
	config := filepath.Join(host.Shared, name)
	dir := filepath.Join(config, "mcpscope")
	must(b, os.MkdirAll(dir, 0o755))
	must(b, os.WriteFile(filepath.Join(dir, "mcpscope.toml"), []byte(text), 0o644))
	return append(os.Environ(), "XDG_CONFIG_HOME="+config)
}

// lackedControllers is a reason, if a controller is missing: a limit holds, or nothing starts.
func lackedControllers(b *testing.B, names ...string) string {
	text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	must(b, err)
	controllers := strings.Fields(string(text))
	for _, name := range names {
		if !slices.Contains(controllers, name) {
			return "this machine has no controller " + name
		}
	}
	return ""
}

func (c contender) ours() bool { return len(c.wrap) > 0 && c.wrap[0] == mcpscopeFile }

// command makes the command of a server. mcpscope's flags precede those that the contender has.
func (c contender) command(flags []string, args ...string) *exec.Cmd {
	argv := slices.Concat(c.wrap, []string{serverFile}, args)
	if c.ours() {
		argv = slices.Insert(argv, 2, flags...)
	}
	cmd := (&host.Host{}).Command(c.user, argv...)
	if c.env != nil {
		cmd.Env = c.env
	}
	if c.in != nil {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(c.in.Fd())
	}
	return cmd
}

// able leaves out the contenders that are missing here, with the reason. mcpscope may not be missing.
func able(b *testing.B, all []contender) (able []contender, skipped []string) {
	for _, c := range all {
		if c.lacks != "" {
			skipped = append(skipped, c.name+": "+c.lacks)
			continue
		}
		s, err := startServer(c, nil)
		if err == nil {
			err = s.end()
		}
		switch {
		case err == nil:
			able = append(able, c)
		case c.ours():
			b.Fatal(err)
		default:
			skipped = append(skipped, fmt.Sprintf("%s: %s", c.name,
				strings.ReplaceAll(err.Error(), "\n", ", ")))
		}
	}
	return able, skipped
}

// named are the contenders of these names that are there.
func named(all []contender, names ...string) (some []contender) {
	for _, c := range all {
		if slices.Contains(names, c.name) {
			some = append(some, c)
		}
	}
	return some
}
