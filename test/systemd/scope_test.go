// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/facts"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

func backendOf(u host.User) string {
	if u.UID == 0 {
		return "systemd-system"
	}
	return "systemd-user"
}

// The manager is found from the uid alone: an SDK passes none of its variables on.
func TestRunIsInAScope(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		c := launch(t, u, "inscope", "ignore-both")
		for dir, want := range map[string]bool{"": false, "payload": true} {
			if pids, err := escape.GroupPids(filepath.Join(c.scope, dir)); err != nil || (len(pids) > 0) != want {
				t.Errorf("processes in %q of the scope: %v, %v", dir, pids, err)
			}
		}
		c.client.Tell("close")
		c.wantGone("stdin closed")
	})
}

// A login session is a scope of the system manager, from which a user can't move a
// process into the tree of his own; his manager can.
func TestRunFromALoginSession(t *testing.T) {
	u := host.Tester
	m := escape.NewMembers(t)
	s := host.Current(t).Login(t, u)
	cmd := s.Command(append([]string{programs.Client, "--group", "--"}, zoo(u, "session", m, "ignore-both")...)...)
	c := awaitServer(t, escape.StartClient(t, cmd, cmd.Start), m, u.Slice())
	c.client.Server.Signal(unix.SIGKILL)
	c.wantGone("launcher killed")
}

// A program that can't be executed is reported once, as without mcpscope, and its scope is removed.
func TestProgramThatDoesNotStart(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		file := filepath.Join(host.Shared, "lost-"+u.Name)
		if err := os.WriteFile(file, []byte("#!/no/interpreter\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd := host.Current(t).Command(u, append(run(u, "lost"), file)...)
		cmd.Stderr = &stderr
		_ = cmd.Run() // its status is compared below
		if status := cmd.ProcessState.ExitCode(); status != 127 || strings.Count(stderr.String(), "mcpscope: cannot") != 1 {
			t.Errorf("status %d; stderr: %s", status, stderr.String())
		}
		escape.WantNoServers(t, u.Slice(), "lost", patience)
	})
}

// The process that asks for a scope has a Go runtime, which would print a stack trace.
func TestLowLimitInALoginSession(t *testing.T) {
	const script = `ulimit -v 200000 && exec "$0" run -- true`
	cmd := host.Current(t).Command(host.Tester, "sh", "-c", script, mcpscope)
	text, _ := cmd.CombinedOutput() // its status is compared below
	const want = "mcpscope: cannot run a server: the limit of address space is too low\n" +
		"mcpscope: hint: raise it to 1 GB at least (ulimit -v, LimitAS=)\n"
	if status := cmd.ProcessState.ExitCode(); status != 125 || string(text) != want {
		t.Errorf("status %d, %s", status, text)
	}
}

// systemd signals the guard alone, by SIGWINCH; the members get SIGTERM once.
func TestStopOfTheScope(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		script := `trap "echo asked" TERM; echo ready; while :; do read -r line && [ "$line" = end ] && exit 0; done`
		cmd := h.Command(u, append(run(u, "stopped", "--term-grace", "1m"), "sh", "-c", script)...)
		k := escape.StartTalk(t, cmd, cmd.Start)
		k.Hear("ready")
		found := u.Scopes("stopped")
		if len(found) != 1 {
			t.Fatalf("scopes: %q", found)
		}
		if err := escape.AwaitScope(found[0], patience); err != nil {
			t.Fatal(err)
		}
		stop := h.Manage(u, "systemctl", "stop", filepath.Base(found[0]))
		if err := stop.Start(); err != nil {
			t.Fatal(err)
		}
		k.Hear("asked")
		k.Tell("end")
		rest, _ := io.ReadAll(k.Out) // it ends with the server
		if err := stop.Wait(); err != nil || string(rest) != "" {
			t.Errorf("stop: %v; then the server said %q", err, rest)
		}
		if err := escape.AwaitRemoval(found[0], patience); err != nil {
			t.Error(err)
		}
	})
}

// With launcher and guard killed, nothing acts but a sweep.
func TestSweepOfAScope(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		c := launch(t, u, "swept", "setsid")
		c.unguard()
		if out := host.Must(t, host.Current(t).Command(u, mcpscope, "sweep", "--quiet")); !strings.Contains(out, "stopped swept") {
			t.Errorf("sweep: %s", out)
		}
		c.wantGone("sweep")
	})
}

// A scope that its manager has not removed yet, after the return of its launcher, is no orphan.
func TestSweepAfterTheEnd(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		const line = "for i in 1 2 3 4 5 6 7 8 9 10; do $0 run --verbose -- true 2>&-; $0 sweep --dry-run --quiet; $0 sweep --json; done"
		if out := host.Must(t, host.Current(t).Command(u, "sh", "-c", line, mcpscope)); out != "" {
			t.Errorf("sweep says %s", out)
		}
	})
}

// systemd 252 forgets a scope that it fails to stop, and leaves its directories. A sweep may have removed a part of them before.
func TestSweepRemovesAForgottenScope(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		live := launch(t, u, "live", "plain", "--eof-grace", "1m")
		whole := u.Slice() + "/mcp-forgotten-0234abcd.scope"
		rest := u.Slice() + "/mcp-rest-0234abce.scope"
		bare := u.Slice() + "/mcp-bare-0234abcf.scope"
		for _, dir := range []string{whole, whole + "/guards", whole + "/payload", whole + "/payload/below", rest, rest + "/guards", bare} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(dir) }) // if the sweep has not
			if err := os.Chown(dir, u.UID, u.UID); err != nil {
				t.Fatal(err)
			}
		}
		facts.Set(t, whole+"/payload", func(f *protocol.Facts) { f.Name = "forgotten" })
		long := time.Now().Add(-time.Minute) // one that is new may be a server's that starts
		for _, dir := range []string{rest, bare} {
			if err := os.Chtimes(dir, long, long); err != nil {
				t.Fatal(err)
			}
		}
		host.Must(t, host.Current(t).Command(u, mcpscope, "sweep", "--quiet"))
		for _, dir := range []string{whole, rest, bare} { // the live server's guard may just be sweeping too
			if err := escape.AwaitRemoval(dir, patience); err != nil {
				t.Error(err)
			}
		}
		live.lives()
		live.ends()
	})
}

// When scopes have their guards, the leaf beside them is empty. A member may remove it, and kill the guard.
func TestRemovedGuards(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		c := newEarlyYard(t, u).launch(t, u.Slice(), "leafless", "--backend", "auto") // whose guard is not the manager's first
		c.awaitScope()
		removed := func() bool { // another server may be starting in it
			err := unix.Rmdir(filepath.Join(u.Slice(), "guards"))
			return err == nil || err == unix.ENOENT
		}
		if !pace.Eventually(patience, removed) {
			t.Fatal("the leaf is in use")
		}
		first := c.guard
		first.Signal(unix.SIGKILL)
		renewed := func() bool {
			pids, _ := escape.GroupPids(filepath.Join(c.scope, "guards")) // none yet
			return len(pids) == 1 && pids[0] != first.PID
		}
		if !pace.Eventually(patience, renewed) {
			t.Error("there is no other guard")
		}
		c.client.Server.Signal(unix.SIGKILL)
		c.wantGone("launcher killed")
	})
}

// A member may freeze the leaf of guards in its scope: a sweep thaws it.
func TestFrozenGuardsOfAScope(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		for end, kind := range map[string]string{"close": "ignore-both", "term": "plain", "kill": "plain"} {
			c := launch(t, u, "frozen-"+end, kind, "--eof-grace", "1ms", "--term-grace", "1ms")
			escape.AwaitSettled(c.guard)
			if err := os.WriteFile(filepath.Join(c.scope, "guards", "cgroup.freeze"), []byte("1"), 0); err != nil {
				t.Fatal(err)
			}
			switch end {
			case "close": // its launcher waits for the guard
				c.client.Tell("close")
			case "term":
				c.client.Server.Signal(unix.SIGTERM)
				c.client.Server.Ended(patience)
			case "kill":
				c.client.Server.Signal(unix.SIGKILL)
				c.client.Server.Ended(patience)
			}
			host.Must(t, host.Current(t).Command(u, mcpscope, "sweep", "--quiet"))
			c.wantGone(end)
		}
	})
}

// A frozen server can be ended, no matter what has frozen it. systemd 257 refuses to stop a unit that it
// has frozen itself, 252 thaws it: so mcpscope sends it no request.
func TestEndOfAFrozenScope(t *testing.T) {
	h := host.Current(t)
	for _, c := range []struct {
		name      string
		bySystemd bool
		end       func(*testing.T, host.User, *contained)
	}{
		{"by mcpscope, unit stopped", false, func(t *testing.T, u host.User, c *contained) {
			host.Must(t, h.Manage(u, "systemctl", "stop", c.unit()))
		}},
		{"by systemd, stdin closed and thawed", true, func(t *testing.T, u host.User, c *contained) {
			c.client.Tell("close")
			host.Must(t, h.Manage(u, "systemctl", "thaw", c.unit()))
		}},
		{"by systemd, signalled", true, func(_ *testing.T, _ host.User, c *contained) {
			c.client.Server.Signal(unix.SIGTERM)
		}},
		{"by systemd, stopped", true, func(t *testing.T, u host.User, _ *contained) {
			host.Must(t, h.Command(u, mcpscope, "stop", "frozen"))
		}},
		{"by systemd, launcher killed and swept", true, func(t *testing.T, u host.User, c *contained) {
			c.client.Server.Signal(unix.SIGKILL)
			if !c.client.Server.Ended(patience) {
				t.Error("the launcher outlived SIGKILL")
			}
			host.Must(t, h.Command(u, mcpscope, "sweep", "--quiet"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host.BothAtOnce(t, func(t *testing.T, u host.User) {
				s := launch(t, u, "frozen", "setsid")
				if c.bySystemd {
					host.Must(t, h.Manage(u, "systemctl", "freeze", s.unit()))
				} else {
					host.Must(t, h.Command(u, mcpscope, "freeze", "frozen"))
				}
				c.end(t, u, s)
				s.wantGone(c.name)
			})
		})
	}
}

// A user who does not linger has a manager as long as a session, with the servers in it.
func TestLogoutOfAUserWithoutLingering(t *testing.T) {
	h := host.Current(t)
	u := host.NoLinger
	for name, end := range map[string]func(*contained, *host.Session) error{
		"hang-up": func(c *contained, s *host.Session) error {
			err := s.Logout()
			c.lives() // no signal has reached it yet
			c.client.Own.Signal(unix.SIGHUP)
			return err
		},
		"session": func(_ *contained, s *host.Session) error { return s.Terminate() },
		"user": func(*contained, *host.Session) error {
			return h.Command(host.Root, "loginctl", "terminate-user", u.Name).Run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := h.Login(t, u)
			m := escape.NewMembers(t)
			cmd := s.Command(append([]string{programs.Client, "--group", "--"}, zoo(u, "guest", m, "stopped")...)...)
			c := awaitServer(t, escape.StartClient(t, cmd, cmd.Start), m, u.Slice())
			if err := end(c, s); err != nil {
				t.Fatal(err)
			}
			c.wantGone(name)
			manager := strings.TrimSuffix(u.Slice(), "/mcp.slice")
			if err := escape.AwaitRemoval(manager, patience); err != nil {
				t.Errorf("the user's manager: %v", err)
			}
		})
	}
}
