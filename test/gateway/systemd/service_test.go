// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// The unit has the gateway as its main process, reload reaches it, and at a stop it uses its
// servers until it has drained.
func TestStop(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "", "ExecReload=/bin/kill -USR1 $MAINPID", "WatchdogSec=5min")
		s.isMain()
		s.want("StatusErrno", "0")
		one, first := s.server("one", "double-fork")
		two, second := s.server("two", "ignore-both")
		if _, err := s.Control("reload"); err != nil {
			t.Error(err)
		}
		if got := s.Expect("signal"); got != "user defined signal 1" {
			t.Errorf("reload sent %q", got)
		}
		s.wantOrder()
		s.looksRight()
		begin := time.Now()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		t.Logf("the stop took %v", time.Since(begin).Round(time.Millisecond))
		for range 2 {
			if got := s.Expect("drained"); !strings.HasSuffix(got, " ping") {
				t.Errorf("a server's last answer is %q", got)
			}
		}
		s.gone("one", one, first)
		s.gone("two", two, second)
		t.Logf("nothing left after %v", time.Since(begin).Round(time.Millisecond))
		if result, err := s.Await(escape.Patience); result != "success" || err != nil {
			t.Errorf("result %q (%v)", result, err)
		}
		for _, dir := range watcherScopes(u) {
			if err := escape.AwaitRemoval(dir, escape.Patience); err != nil {
				t.Error(err)
			}
		}
	})
}

// looksRight: some gateways look for others of their kind by command lines, and whether systemd takes them
// for the service.
func (s *service) looksRight() {
	s.t.Helper()
	s.Tell("scan")
	if got := s.Expect("scanned"); got != "true 1" {
		s.t.Errorf("it looks like %q gateways", got)
	}
	manager := ""
	if s.user.UID != 0 {
		manager = "--user "
	}
	s.Tell("mainpid systemctl %sshow --property=MainPID --value %s", manager, s.Unit.Name)
	if got := s.Expect("main"); got != "true <nil>" {
		s.t.Errorf("that it is the main process: %s", got)
	}
}

// wantOrder: what watches the gateway stays when that ends, for those who are left have the
// filter; where all is stopped it is stopped last.
func (s *service) wantOrder() {
	s.t.Helper()
	for _, dir := range watcherScopes(s.user) {
		out, err := host.Current(s.t).Manage(s.user, "systemctl", "show", "--property=BindsTo,Before", filepath.Base(dir)).Output()
		binds, before, _ := strings.Cut(string(out), "Before=")
		if err != nil || strings.TrimSpace(binds) != "BindsTo=" || !strings.Contains(before, s.Unit.Name) {
			s.t.Errorf("%s: %q (%v)", filepath.Base(dir), out, err)
		}
	}
}

// After a crash the unit is started again, does not wait for what the old one has left, and none
// of that is there any more.
func TestCrash(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "", "Restart=always")
		old, scope := s.server("old", "ignore-both")
		begin := time.Now()
		if err := s.Crash(); err != nil {
			t.Fatal(err)
		}
		if err := s.AwaitRestart(); err != nil {
			t.Fatal(err)
		}
		s.Up()
		t.Logf("started again after %v", time.Since(begin).Round(time.Millisecond))
		s.isMain()
		s.gone("old", old, scope)
		fresh, scope := s.server("fresh", "setsid")
		s.Tell("ask fresh")
		if got := s.Expect("answer fresh"); got != "ping" {
			t.Errorf("the new server says %q", got)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		s.gone("fresh", fresh, scope)
	})
}

// A gateway that does not say in time that it is alive is killed by systemd and started again.
func TestWatchdog(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "", "WatchdogSec=3s", "Restart=on-watchdog")
		old, scope := s.server("old", "ignore-both")
		s.Up()
		s.want("NRestarts", "1")
		s.isMain()
		s.gone("old", old, scope)
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// A gateway that the kernel kills for lack of memory is started again; its servers did not count as its own.
func TestGatewayOutOfMemory(t *testing.T) {
	bed.Require(t, bed.Controller("memory"))
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "", "MemoryMax=128M", "MemorySwapMax=0", "Restart=on-failure")
		old, scope := s.anywhere("old", "ignore-both")
		s.Tell("eat")
		s.Up()
		s.want("NRestarts", "1")
		s.gone("old", old, scope)
		fresh, scope := s.anywhere("fresh", "setsid")
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		s.gone("fresh", fresh, scope)
	})
}

func TestRestart(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "")
		old, scope := s.server("old", "ignore-both")
		begin := time.Now()
		if err := s.Unit.Restart(); err != nil {
			t.Fatal(err)
		}
		s.Up()
		took := time.Since(begin)
		t.Logf("restarted in %v", took.Round(time.Millisecond))
		if took > 10*time.Second {
			t.Errorf("an old server has held the restart up for %v", took)
		}
		s.isMain()
		s.gone("old", old, scope)
	})
}

// How a gateway ends means something to its unit.
func TestExitStatus(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "", "Restart=on-failure", "RestartForceExitStatus=75", "RestartPreventExitStatus=78")
		old, scope := s.server("old", "setsid")
		s.Tell("exit 75")
		s.Up()
		s.want("NRestarts", "1")
		s.gone("old", old, scope)
		s.Tell("exit 78")
		if result, err := s.Await(escape.Patience); result != "exit-code" || err != nil {
			t.Errorf("result %q (%v)", result, err)
		}
	})
}

// Without root the kernel wants no_new_privs for a filter. Who refuses that has servers that
// are contained once they are seen.
func TestPrivileges(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		for _, c := range []struct {
			flags string
			want  bool
		}{{"", u.UID != 0}, {"--no-new-privs=never", false}} {
			s := serve(t, u, c.flags)
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
			if got := strings.Contains(string(text), "NoNewPrivs:\t1"); got != c.want || err != nil {
				t.Errorf("with %q: no_new_privs is %v (%v)", c.flags, got, err)
			}
			m := s.Gateway.Server(programs, "a", "setsid")
			if err := escape.AwaitFile(s.explain, escape.Patience); err != nil {
				t.Fatal(err)
			}
			path, err := bed.ProcessPath(m.Main.PID)
			if err != nil || !strings.Contains(path, "/mcp.slice/mcp-zoo-") {
				t.Errorf("with %q: the server is in %s (%v)", c.flags, path, err)
			}
			s.isMain()
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			s.gone("a", m, filepath.Dir("/sys/fs/cgroup"+path))
		}
	})
}

// Both processes beside the gateway are killed, and one supervisor: systemd does the rest.
func TestGuardsKilled(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		s := serve(t, u, "")
		one, first := s.server("one", "setsid")
		two, second := s.server("two", "double-fork")
		scopes := watcherScopes(u)
		if len(scopes) != 1 {
			t.Fatalf("scopes of watchers: %q", scopes)
		}
		kill(t, scopes[0])
		kill(t, first+"/supervisor")
		if n := len(one.Running()); n == 0 {
			t.Error("the server has ended with its guards, so this tests nothing")
		}
		s.Tell("times 1 /bin/true")
		if got := s.Expect("times"); !strings.Contains(got, "function not implemented") {
			t.Errorf("with nobody to answer: %q", got)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		s.gone("one", one, first)
		s.gone("two", two, second)
	})
}

// kill kills all in a group, at once.
func kill(t *testing.T, dir string) {
	t.Helper()
	pids, err := escape.GroupPids(dir)
	if err != nil || len(pids) == 0 {
		t.Fatalf("%v in %s (%v)", pids, dir, err)
	}
	var all []*escape.Process
	for _, pid := range pids {
		p, err := escape.OpenProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		p.Signal(unix.SIGSTOP) // neither is to act on the other's end
		all = append(all, p)
	}
	for _, p := range all {
		p.Signal(unix.SIGKILL)
	}
	for _, p := range all {
		if !p.Ended(escape.Patience) {
			t.Fatal("a process outlived SIGKILL")
		}
	}
}
