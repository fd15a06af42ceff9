// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"cmp"
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
	"github.com/mcpscope/mcpscope/test/pace"
)

// The unit has the gateway as its main process, reload reaches it, and at a stop it uses its
// servers until it has drained. The gateway's watchers are stopped last.
func TestStop(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "", "ExecReload=/bin/kill -USR1 $MAINPID", "WatchdogSec=5min")
		s.isMain()
		one := s.server("one", "double-fork")
		two := s.server("two", "ignore-both")
		if !strings.HasSuffix(one.Group, ".scope") {
			t.Errorf("the server's group is no scope: %s", one.Group)
		}
		if _, err := s.Control("reload"); err != nil {
			t.Error(err)
		}
		if got := s.Expect("signal"); got != "user defined signal 1" {
			t.Errorf("reload sent %q", got)
		}
		for _, dir := range watcherScopes(u) {
			out, err := host.Current(t).Manage(u, "systemctl", "show", "--property=BindsTo,Before", filepath.Base(dir)).Output()
			binds, before, _ := strings.Cut(string(out), "Before=")
			if err != nil || strings.TrimSpace(binds) != "BindsTo=" || !strings.Contains(before, s.Unit.Name) {
				t.Errorf("%s: %q (%v)", filepath.Base(dir), out, err)
			}
		}
		s.stop()
		for range 2 {
			if got := s.Expect("drained"); !strings.HasSuffix(got, " ping") {
				t.Errorf("a server's last answer is %q", got)
			}
		}
		one.Gone(t)
		two.Gone(t)
		if result, err := s.Await(escape.Patience); result != "success" || err != nil {
			t.Errorf("result %q (%v)", result, err)
		}
		for _, dir := range watcherScopes(u) {
			if err := escape.AwaitRemoval(dir, escape.Patience); err != nil {
				t.Error(err, escape.Tree(dir))
			}
		}
	})
}

// A unit that is started again, for any reason, does not wait for servers of the old gateway, and none of
// them survives.
func TestRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		properties []string
		end        func(*service)
	}{
		"crash": {[]string{"Restart=always"}, (*service).crash},
		"restart": {nil, func(s *service) {
			if err := s.Unit.Restart(); err != nil {
				s.t.Error(err)
			}
		}},
		"exit status": {[]string{"Restart=on-failure", "RestartForceExitStatus=75"}, func(s *service) { s.Tell("exit 75") }},
	} {
		t.Run(name, func(t *testing.T) {
			host.Both(t, func(t *testing.T, u host.User) {
				s := serve(t, u, "", c.properties...)
				old := s.server("old", "ignore-both")
				c.end(s)
				s.Up()
				old.Gone(t)
				fresh := s.works()
				s.stop()
				fresh.Gone(t)
			})
		})
	}
}

// A gateway that does not say in time that it is alive is killed by systemd and started again.
func TestWatchdog(t *testing.T) {
	s := serve(t, host.Root, "", "WatchdogSec=3s", "Restart=on-watchdog")
	old := s.Born("server", "old", programs.Zoo, "ignore-both") // on a busy machine 3 s are over soon
	s.Up()
	old.Gone(t)
	s.stop()
}

// A gateway that the kernel kills for lack of memory is started again; its servers did not count as its own.
func TestGatewayOutOfMemory(t *testing.T) {
	bed.Require(t, bed.Controller("memory"))
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "", "MemoryMax=128M", "MemorySwapMax=0", "Restart=on-failure")
		s.Groups = "" // in a machine that is emulated the manager may answer too late, and another backend is taken
		old := s.server("old", "ignore-both")
		s.Tell("eat")
		s.Up()
		old.Gone(t)
		fresh := s.works()
		s.stop()
		fresh.Gone(t)
	})
}

// A sweep in another pid namespace sees neither guard nor watcher. That makes no orphan of a server.
func TestSweepFromAnotherPidNamespace(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "")
		one := s.server("one", "setsid")
		if err := escape.AwaitScope(one.Group, escape.Patience); err != nil {
			t.Fatal(err)
		}
		sweep := host.Current(t).Command(host.Root, "unshare", "--pid", "--fork", "--mount-proc",
			host.Shared+"/mcpscope", "sweep", "--all-users", "--yes")
		if out := host.Must(t, sweep); strings.Contains(out, "stopped") {
			t.Errorf("the sweep says %s", out)
		}
		s.works()
		if left := one.Running(); len(left) != 2 {
			t.Errorf("%d processes of the server run, want 2: %q", len(left), left)
		}
		s.stop()
		one.Gone(t)
	})
}

// Without root the kernel wants no_new_privs for a filter.
func TestPrivileges(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "")
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
		if got := strings.Contains(string(text), "NoNewPrivs:\t1"); got != (u.UID != 0) || err != nil {
			t.Errorf("no_new_privs is %v (%v)", got, err)
		}
		m := s.server("a", "setsid")
		s.isMain()
		s.stop()
		m.Gone(t)
	})
}

// Both processes beside the gateway are killed: systemd does the rest.
func TestGuardsKilled(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "")
		one := s.server("one", "setsid")
		two := s.server("two", "double-fork")
		watcher := s.Watcher()
		guard, err := escape.ParentProcess(watcher)
		err = cmp.Or(err, escape.AwaitScope(one.Group, escape.Patience), escape.AwaitScope(two.Group, escape.Patience))
		if err == nil {
			defer guard.Close()
			err = escape.KillTogether(guard, watcher)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(one.Running()); n == 0 {
			t.Error("the server has ended with its guards, so this tests nothing")
		}
		s.Tell("times 1 /bin/true")
		if got := s.Expect("times"); !strings.Contains(got, "function not implemented") {
			t.Errorf("with nobody to answer: %q", got)
		}
		s.stop()
		one.Gone(t)
		two.Gone(t)
	})
}

// The watcher has six descriptors for each server in a scope, and the guard four. After a kill the next watcher has
// no more, and ends the servers as the first one would have.
func TestScopesOfTheNextWatcher(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "")
		var all []*gateway.Server
		start := func(n int) {
			for range n {
				m := s.server(fmt.Sprint("s", len(all)), "setsid")
				if err := escape.AwaitScope(m.Group, escape.Patience); err != nil {
					t.Fatal(err)
				}
				all = append(all, m)
			}
		}
		count := func(p *escape.Process) int {
			files, err := escape.OpenFiles(p.PID)
			if err != nil {
				t.Fatal(err)
			}
			return len(files)
		}
		start(2)
		watcher := s.Watcher()
		guard, err := escape.ParentProcess(watcher)
		if err != nil {
			t.Fatal(err)
		}
		defer guard.Close()
		ofWatcher := count(watcher)
		ofGuard := count(guard)
		const more = 6
		start(more)
		// a watcher closes some of them when the manager has answered
		if !pace.Eventually(escape.Patience, func() bool { return count(watcher) <= ofWatcher+6*more }) {
			t.Errorf("for %d servers the watcher has %d descriptors more", more, count(watcher)-ofWatcher)
		}
		if now := count(guard); now != ofGuard+4*more {
			t.Errorf("for %d servers the guard has %d descriptors more", more, now-ofGuard)
		}
		settled := count(watcher)
		watcher.Signal(unix.SIGKILL)
		if !watcher.Ended(escape.Patience) {
			t.Fatal("the watcher outlived SIGKILL")
		}
		start(1)
		if now := count(s.Watcher()); now > settled+20 { // of the new server, while the manager adopts it
			t.Errorf("the next watcher has %d descriptors, the first one had %d", now, settled)
		}
		for _, m := range all {
			s.Answers(m.Name)
		}
		s.stop()
		for _, m := range all {
			m.Gone(t)
		}
	})
}

// The stderr of a server that is known before it runs is the journal's, from its first line on.
func TestStderrInTheJournal(t *testing.T) {
	s := serve(t, host.Root, "--stderr journal --match talks-mcp")
	script := host.Directory(t, host.Root) + "/talks-mcp"
	if err := escape.WriteProgram(script, "#!/bin/sh\necho it talks >&2\nexec \"$@\"\n"); err != nil {
		t.Fatal(err)
	}
	m := s.Born("server", "one", script+" "+programs.Zoo, "setsid")
	if !pace.Eventually(escape.Patience, func() bool {
		out, _ := host.Current(t).Command(s.user, host.Shared+"/mcpscope", "logs", "talks-mcp").Output() // nothing yet
		return strings.Contains(string(out), "it talks")
	}) {
		t.Errorf("the journal has nothing; the gateway's stderr: %q", escape.Contents(s.Stderr))
	}
	s.stop()
	m.Gone(t)
}

// A service can be in a session: it stays the unit's main process, and its stop ends all of the session, also
// where guard and watcher were killed. Then a sweep removes the slice.
func TestServiceInASession(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		for name, isWatched := range map[string]bool{"watched": true, "killed": false} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, u, "--session")
				path, err := bed.ProcessPath(s.PID)
				session := filepath.Join("/sys/fs/cgroup", filepath.Dir(path))
				if err != nil || !strings.HasPrefix(filepath.Base(session), "mcp-session_") {
					t.Fatalf("the gateway is in %s (%v)", path, err)
				}
				if pid, err := s.MainPID(); err != nil || pid != s.PID {
					t.Errorf("MainPID is %d, the gateway %d (%v)", pid, s.PID, err)
				}
				s.Groups = session
				one := s.server("one", "setsid")
				if !isWatched {
					watcher := s.Watcher()
					guard, err := escape.ParentProcess(watcher)
					err = cmp.Or(err, escape.AwaitScope(one.Group, escape.Patience))
					if err != nil {
						t.Fatal(err)
					}
					defer guard.Close()
					if err := escape.KillTogether(guard, watcher); err != nil {
						t.Fatal(err)
					}
				}
				s.stop()
				one.Gone(t)
				escape.WantEnded(t, s.Own)
				if !isWatched {
					out, err := host.Current(t).Command(u, host.Shared+"/mcpscope", "sweep", "--quiet").CombinedOutput()
					if err != nil {
						t.Errorf("sweep: %v, %s", err, out)
					}
				}
				if err := escape.AwaitRemoval(session, escape.Patience); err != nil {
					t.Errorf("%v: %s", err, escape.Tree(session))
				}
			})
		}
	})
}
