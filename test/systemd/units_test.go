// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

func control(t *testing.T, u host.User, args ...string) string {
	t.Helper()
	return strings.TrimSpace(host.Must(t, host.Current(t).Manage(u, "systemctl", args...)))
}

// install has an mcpscope install units, and remove them at the end of the test. The own units of an installed one are
// there already.
func install(t *testing.T, u host.User, executable string, args ...string) {
	t.Helper()
	h := host.Current(t)
	if executable == mcpscope && escape.Installed() != "" && len(args) == 0 {
		wantPackaged(t, u)
		return
	}
	line := append([]string{executable, "units"}, args...)
	said := host.Must(t, h.Command(u, append(line, "--install")...))
	if !strings.Contains(said, "installed "+u.Units()+"/") || !strings.Contains(said, "daemon-reload") {
		t.Fatalf("it says %q", said)
	}
	control(t, u, "daemon-reload")
	t.Cleanup(func() {
		if said := host.Must(t, h.Command(u, append(line, "--remove")...)); !strings.Contains(said, "removed ") {
			t.Errorf("it says %q", said)
		}
		control(t, u, "daemon-reload")
	})
}

// place writes a file for a user, and removes it at the end of the test.
func place(t *testing.T, u host.User, path, text string) {
	t.Helper()
	host.Must(t, host.Current(t).Command(u, "mkdir", "-p", filepath.Dir(path)))
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chown(path, u.UID, u.UID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	})
}

// systemd finds nothing wrong with any unit.
func TestUnitsAreSound(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		install(t, u, mcpscope)
		place(t, u, u.Units()+"/some-gateway.service", "[Service]\nExecStart=/bin/sleep infinity\n")
		install(t, u, mcpscope, "--unit", "some-gateway")
		for _, unit := range []string{"mcpscope-metrics.service", "mcpscope-sweep.service", "mcpscope-sweep.timer", "some-gateway.service"} {
			if said := host.Must(t, host.Current(t).Manage(u, "systemd-analyze", "verify", "--man=no", unit)); said != "" {
				t.Errorf("%s: %s", unit, said)
			}
			if state := control(t, u, "show", "--value", "--property=LoadState", unit); state != "loaded" {
				t.Errorf("%s is %s", unit, state)
			}
		}
		if post := control(t, u, "show", "--value", "--property=ExecStopPost", "some-gateway.service"); !strings.Contains(post, " sweep --unit=some-gateway.service ") {
			t.Errorf("the drop-in is not in force: ExecStopPost=%s", post)
		}
	})
}

// The system's sweep ends the orphans of all users, a user's his own; no server in use. It does so again when the timer asks for it.
// The program may be in a home (go install), though the system's service sees no other file there.
func TestSweepService(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		program := mcpscope
		if escape.Installed() == "" {
			program = u.Home + "/go bin/mcpscope"
			host.Must(t, h.Command(u, "install", "-D", mcpscope, program))
			host.Must(t, h.Command(u, "install", mcpscope+"ctl", filepath.Dir(program)))
			t.Cleanup(func() { host.Must(t, h.Command(u, "rm", "-r", filepath.Dir(program))) })
		}
		install(t, u, program)
		place(t, u, u.Units()+"/mcpscope-sweep.timer.d/soon.conf", "[Timer]\nOnStartupSec=\nOnUnitInactiveSec=\nOnActiveSec=1ms\nAccuracySec=1ms\nRandomizedDelaySec=0\n")
		control(t, u, "daemon-reload")
		t.Cleanup(func() { control(t, u, "stop", "mcpscope-sweep.timer", "mcpscope-sweep.service") })
		inUse := launch(t, host.Tester, "inuse", "plain", "--eof-grace", "1m")
		users := []host.User{host.Tester}
		if u == host.Root {
			users = append(users, host.Root)
		}
		for _, unit := range []string{"mcpscope-sweep.service", "mcpscope-sweep.timer"} {
			var orphans []*contained
			for _, of := range users {
				c := launch(t, of, "swept", "setsid")
				escape.AwaitSettled(c.guard) // the helper of a start would look after the server as well
				c.unguard()
				orphans = append(orphans, c)
			}
			control(t, u, "start", unit)
			for _, c := range orphans {
				c.wantGone(unit)
			}
		}
		inUse.lives()
		inUse.ends()
		if result := control(t, u, "show", "--value", "--property=Result", "mcpscope-sweep.service"); result != "success" {
			t.Errorf("its result is %s", result)
		}
	})
}

// Prometheus is answered by the unit as it is installed, in its sandbox; root's has the servers and leaks of all
// users, with pipes and with sockets.
func TestMetricsService(t *testing.T) {
	t.Parallel() // after the tests that install the same units, or have leaks of their own
	ofEach := []ends{pipes, sockets}
	for _, u := range []host.User{host.Tester, host.Root} {
		f := newField(t, u)
		for _, kind := range ofEach {
			p := present{program: program{Argv: line("notes-mcp --serve"), Dir: f.web}, ends: kind}
			p.comes(t, u)
		}
	}
	host.Both(t, func(t *testing.T, u host.User) {
		install(t, u, mcpscope)
		leaks := len(ofEach)
		if u == host.Root { // who sees those of all users
			leaks *= 2
		}
		c := launch(t, host.Tester, "measured", "plain", "--eof-grace", "1m")
		control(t, u, "start", "mcpscope-metrics.service")
		t.Cleanup(func() { control(t, u, "stop", "mcpscope-metrics.service") })
		awaitFigures(t, `name="measured"`, "mcpscope_server_memory_bytes{", fmt.Sprintf("\nmcpscope_leaks %d\n", leaks)) // of ten seconds
		c.ends()
	})
}

// awaitFigures waits until the page of the metrics service has each of these texts.
func awaitFigures(t *testing.T, wanted ...string) {
	t.Helper()
	const page = "http://127.0.0.1:9500/metrics"
	text := ""
	isComplete := func() bool {
		answer, err := http.Get(page)
		if err != nil { // no event shows when it listens
			return false
		}
		defer answer.Body.Close()
		all, _ := io.ReadAll(answer.Body) // the text is checked below
		text = string(all)
		return !slices.ContainsFunc(wanted, func(part string) bool { return !strings.Contains(text, part) })
	}
	if !pace.Eventually(patience, isComplete) {
		t.Errorf("%q are not all in\n%s", wanted, text)
	}
}

// A user without a manager gets a reason and a remedy, and no files.
func TestUnitsWithoutAManager(t *testing.T) {
	out, err := host.Current(t).Command(host.NoLinger, mcpscope, "units", "--install").CombinedOutput()
	if err == nil {
		t.Error("it succeeds")
	}
	want(t, string(out), "cannot reach systemd: ", "hint: sudo loginctl enable-linger nolinger")
	if left, err := filepath.Glob(host.NoLinger.Units() + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// A removal leaves nothing that runs, and nothing that starts at the next boot. The units of a package stay, disabled.
func TestUnitsAreRemoved(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		h := host.Current(t)
		host.Must(t, h.Command(u, mcpscope, "units", "--install", "--now"))
		control(t, u, "enable", "--now", "mcpscope-metrics.service")
		said := host.Must(t, h.Command(u, mcpscope, "units", "--remove", "--now"))
		for _, unit := range []string{"mcpscope-metrics.service", "mcpscope-sweep.timer"} {
			removed := "removed " + u.Units() + "/" + unit
			loaded := "not-found"
			if escape.Installed() != "" {
				removed = "disabled " + unit
				loaded = "loaded"
			}
			want(t, said, unit, removed)
			for property, value := range map[string]string{"ActiveState": "inactive", "LoadState": loaded} {
				if got := control(t, u, "show", "--value", "--property="+property, unit); got != value {
					t.Errorf("%s of %s is %s, want %s", property, unit, got, value)
				}
			}
		}
		links, err := filepath.Glob(u.Units() + "/*.wants/mcpscope-*")
		if err != nil || len(links) > 0 {
			t.Errorf("enabled: %q, %v", links, err)
		}
	})
}

// With the drop-in of `units --unit` a gateway leaves nothing, however it ends: also when launcher and guard of its server
// were killed, which for a restart nothing else mends.
func TestGatewayLeavesNothing(t *testing.T) {
	ends := map[string]func(*host.Unit) error{"crash": (*host.Unit).Crash, "restart": (*host.Unit).Restart}
	for _, c := range []struct {
		name string
		user host.User
	}{
		{"root", host.Root},
		{"tester", host.Tester},
	} {
		t.Run(c.name, func(t *testing.T) {
			place(t, c.user, c.user.Units()+"/hermes-gateway.service.d/zz-mcpscope.conf", "[Service]\nKillMode=mixed\nExecStopPost=-"+mcpscope+" sweep --unit=%n\n")
			control(t, c.user, "daemon-reload")
			for _, end := range []string{"crash", "restart"} { // stop is TestUnitStopEndsAnOrphan
				t.Run(end, func(t *testing.T) {
					service := host.Service{User: c.user, Unit: "hermes-gateway"}
					unit, server := serverInUnit(t, c.user, "gatewayed", "setsid", service)
					server.unguard()
					if err := ends[end](unit.Unit); err != nil {
						t.Fatal(err)
					}
					server.wantGone(end)
					if end == "restart" {
						unit.awaitNext(t, c.user, "gatewayed")
					}
				})
			}
		})
	}
}
