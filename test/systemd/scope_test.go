// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// running is one `mcpscope run`, whose server has said "ready".
type running struct {
	*escape.Talk
	scope string
}

// server ignores SIGTERM and has a child in a session of its own.
const server = `trap "" TERM; setsid sleep 1000 & echo ready; while :; do sleep 1000; done`

func start(t *testing.T, u host.User, cmd *exec.Cmd, name string) *running {
	t.Helper()
	r := &running{Talk: escape.StartTalk(t, cmd, cmd.Start)}
	r.Line()
	found := u.Scopes(name)
	if len(found) != 1 {
		t.Fatalf("scopes of %s: %q", name, found)
	}
	r.scope = found[0]
	if err := escape.AwaitScope(r.scope, patience); err != nil {
		t.Fatal(err)
	}
	return r
}

// run has the server in a scope of the user's manager.
func run(u host.User, name string, command ...string) []string {
	return slices.Insert(plain(name, command...), 2, "--backend", askedFor(u))
}

func plain(name string, command ...string) []string {
	return append([]string{mcpscope, "run", "--name", name, "--eof-grace", "300ms", "--term-grace", "300ms", "--"}, command...)
}

// askedFor is the backend with which servers are in scopes of the user's manager.
//
// Without cgroup.kill every server waits for its scope. There auto takes the next backend if the manager does not answer in a second,
// which one that shares two thirds of a processor with all that it manages can need; asked for by name it has five.
func askedFor(u host.User) string {
	if hasKill(filepath.Join(filepath.Dir(u.Slice()), "init.scope")) { // that is always there
		return "auto"
	}
	return backendOf(u)
}

// The manager is found from the uid alone: an SDK passes none of its variables on.
func TestRunIsInAScope(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		r := start(t, u, h.Command(u, run(u, "inscope", "sh", "-c", server)...), "inscope")
		payload, supervisor := processes(t, r.scope+"/payload"), processes(t, r.scope+"/supervisor")
		if len(payload) < 2 || len(supervisor) != 1 {
			t.Errorf("%d in payload, %d in supervisor", len(payload), len(supervisor))
		}
		if top := processes(t, r.scope); len(top) != 0 {
			t.Errorf("%v is in an inner group", top)
		}
		_ = r.Stdin.Close()
		_ = r.Cmd.Wait()
		for _, p := range payload {
			if p.alive() {
				t.Errorf("%d outlives the launcher", p.PID)
			}
		}
		dead(t, "supervisor", supervisor)
		gone(t, r.scope)
	})
}

// A login session is a scope of the system manager, from which a user can't move a
// process into the tree of his own; his manager can.
func TestRunFromALoginSession(t *testing.T) {
	h := host.Current(t)
	s := h.Login(t, host.Tester)
	r := start(t, host.Tester, s.Command(run(host.Tester, "session", "sh", "-c", server)...), "session")
	all := processes(t, r.scope+"/payload")
	_ = r.Cmd.Process.Kill()
	dead(t, "launcher killed", append(all, processes(t, r.scope+"/supervisor")...))
	gone(t, r.scope)
}

// systemd tells the supervisor alone, by SIGWINCH; the members are asked once.
func TestStopOfTheScope(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		script := `trap "echo asked" TERM; echo ready; while :; do sleep 1000 & wait $!; done`
		line := []string{mcpscope, "run", "--name", "stopped", "--term-grace", "3s", "--", "sh", "-c", script}
		r := start(t, u, h.Command(u, line...), "stopped")
		all := processes(t, r.scope+"/payload")
		unit := r.scope[strings.LastIndexByte(r.scope, '/')+1:]
		if out, err := h.Manage(u, "systemctl", "stop", unit).CombinedOutput(); err != nil {
			t.Fatalf("stop: %v: %s", err, out)
		}
		dead(t, "scope stopped", all)
		rest, _ := io.ReadAll(r.Out) // it ends with the server
		if string(rest) != "asked\n" {
			t.Errorf("the server said %q", rest)
		}
		_ = r.Cmd.Wait()
		gone(t, r.scope)
	})
}

// killBoth kills a launcher and its supervisor at a time: each would act on the
// other's death.
func killBoth(t *testing.T, launcher int, supervisor []process) {
	t.Helper()
	p, err := escape.OpenProcess(launcher) // our descendant, not waited for
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := escape.KillGuards(p, supervisor[0].Process); err != nil {
		t.Fatal(err)
	}
	dead(t, "supervisor", supervisor)
}

// Both guards killed: nobody is left but the sweep.
func TestSweepOfAScope(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		r := start(t, u, h.Command(u, run(u, "swept", "sh", "-c", server)...), "swept")
		all, supervisor := processes(t, r.scope+"/payload"), processes(t, r.scope+"/supervisor")
		killBoth(t, r.Cmd.Process.Pid, supervisor)
		for _, p := range all {
			if !p.alive() {
				t.Errorf("%d is dead before the sweep", p.PID)
			}
		}
		if out, err := h.Command(u, mcpscope, "sweep").CombinedOutput(); err != nil || !strings.Contains(string(out), "ended swept") {
			t.Errorf("sweep: %v: %s", err, out)
		}
		dead(t, "sweep", all)
		gone(t, r.scope)
	})
}

// A sweep may have removed one leaf of a forgotten scope when the other was busy.
func TestSweepRemovesTheRestOfAForgottenScope(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		live := start(t, u, h.Command(u, run(u, "keeps-the-slice", "sh", "-c", server)...), "keeps-the-slice")
		dir := u.Slice() + "/mcp-rest-0234abce.scope"
		for _, sub := range []string{"", "/supervisor"} {
			if err := os.Mkdir(dir+sub, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(dir + sub) }) // if the sweep has not
			if err := os.Chown(dir+sub, u.UID, u.UID); err != nil {
				t.Fatal(err)
			}
		}
		long := time.Now().Add(-time.Minute)
		if err := os.Chtimes(dir, long, long); err != nil {
			t.Fatal(err)
		}
		if out, err := h.Command(u, mcpscope, "sweep").CombinedOutput(); err != nil {
			t.Errorf("sweep: %v: %s", err, out)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("it is still there")
		}
		_ = live.Stdin.Close()
		_ = live.Cmd.Wait() // with the server's status
	})
}

// systemd 252 forgets a scope that it fails to stop, and leaves its directories.
func TestSweepRemovesAForgottenScope(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		live := start(t, u, h.Command(u, run(u, "live", "sh", "-c", server)...), "live")
		dir := u.Slice() + "/mcp-forgotten-0234abcd.scope"
		for _, sub := range []string{"", "/supervisor", "/payload", "/payload/below"} {
			if err := os.Mkdir(dir+sub, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(dir + sub) }) // if the sweep has not
			if err := os.Chown(dir+sub, u.UID, u.UID); err != nil {
				t.Fatal(err)
			}
		}
		for name, value := range map[string]string{"armed": "1", "name": "forgotten"} {
			if err := unix.Setxattr(dir+"/payload", "user.mcpscope."+name, []byte(value), 0); err != nil {
				t.Fatal(err)
			}
		}
		// The live server's supervisor may just be sweeping too.
		if out, err := h.Command(u, mcpscope, "sweep").CombinedOutput(); err != nil {
			t.Errorf("sweep: %v: %s", err, out)
		}
		gone(t, dir)
		if len(processes(t, live.scope+"/payload")) == 0 {
			t.Error("a scope in use was swept")
		}
		_ = live.Stdin.Close()
		_ = live.Cmd.Wait() // with the server's status
		gone(t, live.scope)
	})
}
