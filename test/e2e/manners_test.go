// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// onTerminal runs a command on a terminal of so many columns.
func (w *world) onTerminal(columns int, cmd func(args ...string) *exec.Cmd, args ...string) *transparent.Terminal {
	w.T.Helper()
	line := append([]string{"sh", "-c", fmt.Sprintf(`stty cols %d; exec "$@"`, columns), "sh"}, args...)
	c, group := cmd(line...), w.Unique("terminal")
	return transparent.StartTerminal(w.T, c, func() error { return escape.StartIn(group, c) })
}

// Where there is nothing to print, people are told so, and scripts get no output.
func TestNothingIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home := t.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := w.Command(args...)
		cmd.Env = append(cmd.Env, "HOME="+home)
		cmd.Dir = home
		return cmd
	}
	for line, want := range map[string]string{
		"ls --client nobody":              "no servers of the client nobody",
		"ls --orphans --client nobody":    "no orphans of the client nobody",
		"ls --duplicates --client nobody": "no duplicates of the client nobody",
		"stop --all --client nobody":      "no servers of the client nobody",
		"sweep --unit nobody.service":     "no orphans",
		"status":                          "no client configuration found in " + home,
	} {
		args := append([]string{binaries.mcpscope}, strings.Fields(line)...)
		if o := w.run(command(args...)); o.status != 0 || o.stdout != "" || o.stderr != "" {
			t.Errorf("%s in a pipe: %+v", line, o)
		}
		w.onTerminal(200, command, args...).Expect(want)
	}
	for _, line := range []string{"wrap --program " + binaries.mcpscope, "unwrap --all"} {
		if o := w.run(command(append([]string{binaries.mcpscope}, strings.Fields(line)...)...)); o.status != 0 || !strings.HasPrefix(o.stdout, "no client configuration found in "+home) {
			t.Errorf("%s: %+v", line, o)
		}
	}
}

// stop --all lists what it would end, and asks.
func TestStopAllAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	all := []string{binaries.mcpscope, "stop", "--all", "--client", strconv.Itoa(s.Own.PID)} // others' trees are seen here too
	o := w.run(w.Command(all...))
	if o.status.ExitStatus() != 1 || !strings.Contains(o.stdout, "client["+all[4]+"]") ||
		o.stderr != "mcpscope: cannot stop: nobody has confirmed it\nmcpscope: hint: mcpscope stop --all --yes\n" {
		t.Errorf("in a script: %+v", o)
	}
	refused := w.onTerminal(80, w.Command, all...)
	refused.Expect("client["+all[4]+"]", "Stop 1 server? [y/N] ")
	refused.Type("n\n")
	refused.Expect("nobody has confirmed it")
	if !s.Lives("still there?") {
		t.Error("it was stopped without a yes")
	}
	asked := w.onTerminal(80, w.Command, all...)
	asked.Expect("[y/N] ")
	asked.Type("y\n")
	asked.Expect("stopped ")
	s.dead(escape.Patience)
	s = startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	all[4] = strconv.Itoa(s.Own.PID)
	if o := w.run(w.Command(append(all, "--yes")...)); o.status != 0 || !strings.HasPrefix(o.stdout, "stopped ") {
		t.Errorf("--yes: %+v", o)
	}
	s.dead(escape.Patience)
}

// Names are whole in a pipe, and tables as wide as the terminal.
func TestNamesInPipes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("long", 15)
	s := startServer(w, []string{"--group"}, []string{"--backend", "cgroup", "--name", long}, binaries.Zoo, "plain")
	if o := w.run(w.mcpscope("ls", "--client", strconv.Itoa(s.Own.PID))); !strings.Contains(o.stdout, "  "+long+"  ") {
		t.Errorf("clipped: %s", o.stdout)
	}
	h := newHome(t)
	h.write(".cursor/mcp.json", strings.ReplaceAll(oneServer, "time", long))
	if out := h.run(0, "status"); !strings.Contains(out, "  "+long+"  ") || !strings.Contains(out, h.path(".cursor/mcp.json")) {
		t.Errorf("clipped: %s", out)
	}
	term := w.onTerminal(72, func(args ...string) *exec.Cmd {
		cmd := h.command()
		cmd.Path, cmd.Args = "/bin/sh", args
		return cmd
	}, binaries.mcpscope, "status")
	term.Expect("SERVER", "longlong", "…", "\n")
	for _, line := range strings.Split(term.All(), "\r\n") {
		if wide(line) > 72 {
			t.Errorf("%d cells: %q", wide(line), line)
		}
	}
	s.Own.Signal(unix.SIGKILL)
}
