// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// What is detached lives on when its server is killed, with what it leaves behind when its own first process ends,
// and has what the server has but for its mark.
func TestDetach(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		m := escape.NewMembers(t)
		dir := host.Directory(t, u)
		script := fmt.Sprintf(`cd %[1]s && A='$HOME 1' %[2]s detach -- sh -c 'env >env; pwd >dir; printf "%%s\n" "$@" >arguments; setsid %[3]s --register %[4]s ignore-both & exit 0' sh '$A' '%%i $$' ''; echo "status $?"; echo ready; read -r l`,
			dir, mcpscope, programs.Zoo, m.Address)
		r := start(t, u, h.Command(u, run(u, "detaches", "sh", "-c", script)...), "detaches")
		t.Cleanup(func() { endUnits(t, u, "detached-sh-*") })
		if err := m.UntilReady(patience); err != nil {
			t.Fatal(err)
		}
		_ = r.Cmd.Process.Kill()
		gone(t, r.scope)
		if n := len(m.Running()); n != 1 {
			t.Errorf("%d processes live that were detached, want 1", n)
		}
		env := read(t, dir+"/env")
		if !strings.Contains(env, "\nA=$HOME 1\n") || strings.Contains(env, "MCPSCOPE_ID=") {
			t.Errorf("its environment: %s", env)
		}
		if got := read(t, dir+"/dir") + read(t, dir+"/arguments"); got != dir+"\n$A\n%i $$\n\n" {
			t.Errorf("directory and arguments: %q", got)
		}
		if out := command(t, h, u, "ls", "--escaped"); strings.Contains(out, "zoo") {
			t.Errorf("it is taken for something that escaped: %s", out)
		}
	})
}

// What can't be started says so, with the status that a shell has for it.
func TestDetachOfNothing(t *testing.T) {
	h := host.Current(t)
	for command, want := range map[string]struct {
		status int
		says   string
	}{
		"/no/such":    {127, `cannot run "/no/such": no such file or directory`},
		"/etc/passwd": {126, `cannot run "/etc/passwd": permission denied`},
	} {
		out, err := h.Command(host.Tester, mcpscope, "detach", "--", command).CombinedOutput()
		if exit, is := err.(*exec.ExitError); !is || exit.ExitCode() != want.status || !strings.Contains(string(out), want.says) {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
}

// What a server had a manager start is listed while it runs, and ended only when it has ended.
func TestEscaped(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		m := escape.NewMembers(t)
		asked := h.Manage(u, "systemd-run", "--quiet", "--collect", "--unit=escaped", `--setenv=MCPSCOPE_ID=$MCPSCOPE_ID`, programs.Zoo, "--register", m.Address, "ignore-both")
		script := strings.Join(asked.Args, " ") + `; echo ready; read -r l`
		cmd := h.Command(u, run(u, "lets-go", "sh", "-c", script)...)
		cmd.Env = append(cmd.Environ(), asked.Env...)
		r := start(t, u, cmd, "lets-go")
		t.Cleanup(func() { endUnits(t, u, "escaped.service") })
		if err := m.UntilReady(patience); err != nil {
			t.Fatal(err)
		}
		listed := func(args ...string) (all []struct {
			PID    int
			Server string
			Runs   bool `json:"server_runs"`
			Unit   string
			Ended  *bool
		}) {
			t.Helper()
			var list struct{ Escaped json.RawMessage }
			out := command(t, h, u, append(args, "--json")...)
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := json.Unmarshal(list.Escaped, &all); err != nil {
				t.Fatal(err)
			}
			return all
		}
		id := strings.TrimSuffix(filepath.Base(r.scope), ".scope")
		id = id[strings.LastIndexByte(id, '-')+1:]
		found := listed("ls", "--escaped")
		if len(found) != 1 || found[0].Server != id || !found[0].Runs || found[0].Unit != "escaped.service" {
			t.Errorf("while it runs: %+v, want one of %s", found, id)
		}
		if found := listed("sweep", "--escaped", "--yes"); len(found) != 0 || len(m.Running()) != 1 {
			t.Errorf("a sweep ends what a server that runs has: %+v", found)
		}
		_ = r.Stdin.Close()
		_ = r.Cmd.Wait() // with the server's status
		gone(t, r.scope)
		if out, err := h.Command(u, mcpscope, "sweep", "--escaped").CombinedOutput(); err == nil || !strings.Contains(string(out), "nobody has confirmed it") || len(m.Running()) != 1 {
			t.Errorf("unasked: %v: %s", err, out)
		}
		found = listed("sweep", "--escaped", "--yes")
		if len(found) != 1 || found[0].Ended == nil || !*found[0].Ended {
			t.Errorf("afterwards: %+v", found)
		}
		if n := m.UntilDead(patience); n > 0 {
			t.Errorf("%d left", n)
		}
	})
}

// A server finds a BROWSER that outlives it where there is a graphical session, and none was set.
func TestBrowser(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		for _, c := range []struct {
			env, flags []string
			want       string
		}{
			{nil, nil, "unset"},
			{[]string{"DISPLAY=:1"}, nil, mcpscope + " detach -- xdg-open %s"},
			{[]string{"WAYLAND_DISPLAY=wayland-0"}, nil, mcpscope + " detach -- xdg-open %s"},
			{[]string{"DISPLAY=:1", "BROWSER=own"}, nil, "own"},
			{[]string{"DISPLAY=:1", "BROWSER="}, nil, ""},
			{[]string{"DISPLAY=:1"}, []string{"--no-browser"}, "unset"},
			{[]string{"DISPLAY=:1", "MCPSCOPE_NO_BROWSER=1"}, nil, "unset"},
		} {
			line := append([]string{mcpscope, "run"}, c.flags...)
			cmd := h.Command(u, append(line, "sh", "-c", `echo "${BROWSER-unset}"`)...)
			cmd.Env = append(cmd.Environ(), c.env...)
			if out, err := cmd.Output(); err != nil || string(out) != c.want+"\n" {
				t.Errorf("%v %v: %q, %v, want %q", c.env, c.flags, out, err, c.want)
			}
		}
	})
}

// command prints what mcpscope does.
func command(t *testing.T, h *host.Host, u host.User, args ...string) string {
	t.Helper()
	cmd := h.Command(u, append([]string{mcpscope}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

// endUnits stops units of a user's manager, and what is left in them.
func endUnits(t *testing.T, u host.User, pattern string) {
	h := host.Current(t)
	_ = h.Manage(u, "systemctl", "kill", "--signal=KILL", pattern).Run() // there may be none
	host.StopUnits(t, u, pattern)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
