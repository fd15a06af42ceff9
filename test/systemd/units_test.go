// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

func control(t *testing.T, u host.User, args ...string) string {
	t.Helper()
	return strings.TrimSpace(host.Must(t, host.Current(t).Manage(u, "systemctl", args...)))
}

// install has mcpscope install units, and remove them at the end of the test.
func install(t *testing.T, u host.User, args ...string) {
	t.Helper()
	installFrom(t, u, mcpscope, args...)
}

// installFrom is for a mcpscope in some other place.
func installFrom(t *testing.T, u host.User, executable string, args ...string) {
	t.Helper()
	h := host.Current(t)
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
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chown(path, u.UID, u.UID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	})
}

// systemd finds nothing wrong with any unit, and what it thinks of how closed they are is in the log.
func TestUnitsAreSound(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		install(t, u)
		place(t, u, u.Units()+"/some-gateway.service", "[Service]\nExecStart=/bin/sleep 1000\n")
		control(t, u, "daemon-reload")
		install(t, u, "gateway", "--unit", "some-gateway")
		for _, unit := range []string{"mcpscope-metrics.service", "mcpscope-sweep.service", "mcpscope-sweep.timer", "mcp.slice", "mcp-server@some-name.service", "some-gateway.service"} {
			if said := host.Must(t, h.Manage(u, "systemd-analyze", "verify", "--man=no", unit)); said != "" {
				t.Errorf("%s: %s", unit, said)
			}
			if state := control(t, u, "show", "--value", "--property=LoadState", unit); state != "loaded" {
				t.Errorf("%s is %s", unit, state)
			}
		}
		for _, unit := range []string{"mcpscope-metrics.service", "mcpscope-sweep.service", "mcp-server@some-name.service"} {
			out := host.Must(t, h.Manage(u, "systemd-analyze", "security", "--no-pager", unit))
			lines := strings.Split(strings.TrimSpace(out), "\n")
			t.Logf("%s: %s", unit, lines[len(lines)-1])
		}
		if kill := control(t, u, "show", "--value", "--property=KillMode", "some-gateway.service"); kill != "mixed" {
			t.Errorf("the drop-in is not in force: KillMode=%s", kill)
		}
	})
}

// orphan is a server whose guards are dead.
func orphan(t *testing.T, u host.User, name string) (scope string, all []process) {
	t.Helper()
	r := start(t, u, host.Current(t).Command(u, run(u, name, "sh", "-c", server)...), name)
	all = processes(t, r.scope+"/payload")
	t.Cleanup(func() { // they hold the launcher's stderr, to whose end start waits
		for _, p := range all {
			p.Signal(unix.SIGKILL)
		}
	})
	killBoth(t, r.Cmd.Process.Pid, processes(t, r.scope+"/supervisor"))
	for _, p := range all {
		if !p.alive() {
			t.Errorf("%d is dead before the sweep", p.PID)
		}
	}
	return r.scope, all
}

// The system's sweep ends the orphans of all users, a user's his own; no server in use. The program may
// be in a home (go install), though the system's service sees no other file there.
func TestSweepService(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		copied := u.Home + "/go bin/mcpscope"
		host.Must(t, h.Command(u, "install", "-D", mcpscope, copied))
		host.Must(t, h.Command(u, "install", mcpscope+"ctl", filepath.Dir(copied)))
		t.Cleanup(func() { host.Must(t, h.Command(u, "rm", "-r", filepath.Dir(copied))) })
		installFrom(t, u, copied)
		inUse := start(t, host.Tester, h.Command(host.Tester, run(host.Tester, "inuse", "sh", "-c", server)...), "inuse")
		users := []host.User{host.Tester}
		if u == host.Root {
			users = append(users, host.Root)
		}
		for round := range 2 { // it is no service that works only once
			for _, of := range users {
				name := fmt.Sprintf("swept%d", round)
				scope, all := orphan(t, of, name)
				control(t, u, "start", "mcpscope-sweep.service")
				dead(t, "swept", all)
				gone(t, scope)
			}
		}
		if !processes(t, inUse.scope+"/payload")[0].alive() {
			t.Error("a server in use was ended")
		}
		if result := control(t, u, "show", "--value", "--property=Result", "mcpscope-sweep.service"); result != "success" {
			t.Errorf("its result is %s", result)
		}
		_ = inUse.Stdin.Close()
		_ = inUse.Cmd.Wait() // with the server's status
		gone(t, inUse.scope)
	})
}

// Prometheus is answered by the unit as it is installed; root's has the servers of all users.
func TestMetricsService(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		install(t, u)
		r := start(t, host.Tester, host.Current(t).Command(host.Tester, run(host.Tester, "measured", "sh", "-c", server)...), "measured")
		control(t, u, "start", "mcpscope-metrics.service")
		t.Cleanup(func() { control(t, u, "stop", "mcpscope-metrics.service") })
		client := http.Client{Timeout: patience}
		text := ""
		for deadline := pace.Now().Add(patience); text == ""; escape.PollFor(time.Millisecond) { // nothing tells when it listens
			answer, err := client.Get("http://127.0.0.1:9500/metrics")
			if err == nil {
				body, _ := io.ReadAll(answer.Body) // what came of it is looked at
				text = string(body)
				answer.Body.Close()
			} else if pace.Until(deadline) <= 0 {
				t.Fatal(err)
			}
		}
		if !strings.Contains(text, `name="measured"`) || !strings.Contains(text, "mcpscope_server_memory_bytes{") {
			t.Errorf("the server is not in\n%s", text)
		}
		_ = r.Stdin.Close()
		_ = r.Cmd.Wait() // with the server's status
		gone(t, r.scope)
	})
}

// The timer is as installed, but for its times.
func TestSweepTimer(t *testing.T) {
	if !escape.Full() {
		return // it waits for managers
	}
	host.Both(t, func(t *testing.T, u host.User) {
		install(t, u)
		place(t, u, u.Units()+"/mcpscope-sweep.timer.d/soon.conf",
			"[Timer]\nOnStartupSec=\nOnUnitInactiveSec=\nOnActiveSec=100ms\nOnUnitInactiveSec=100ms\nAccuracySec=1ms\nRandomizedDelaySec=0\n")
		control(t, u, "daemon-reload")
		control(t, u, "enable", "--now", "mcpscope-sweep.timer")
		t.Cleanup(func() { control(t, u, "stop", "mcpscope-sweep.timer", "mcpscope-sweep.service") })
		for _, name := range []string{"timed", "timedagain"} {
			scope, all := orphan(t, u, name)
			dead(t, "the timer is on", all)
			gone(t, scope)
		}
	})
}

// With what the drop-in says of its end a gateway leaves nothing, however it ends: also when both guards of its server
// were killed, which for a restart nothing else mends.
func TestGatewayLeavesNothing(t *testing.T) {
	if !escape.Full() {
		return // it waits for managers
	}
	for _, c := range []struct {
		name          string
		manager, user host.User
		properties    []string
	}{
		{"root", host.Root, host.Root, nil},
		{"tester", host.Tester, host.Tester, nil},
		{"other manager", host.Root, host.Tester, []string{"User=tester"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			place(t, c.manager, c.manager.Units()+"/hermes-gateway.service.d/mcpscope.conf", "[Service]\nKillMode=mixed\nExecStopPost=-"+mcpscope+" sweep --unit=%n\n")
			control(t, c.manager, "daemon-reload")
			for what, end := range map[string]func(*clientUnit) error{
				"stop":    func(u *clientUnit) error { return u.Stop() },
				"restart": func(u *clientUnit) error { return u.Restart() },
				"crash":   func(u *clientUnit) error { return u.Crash() },
			} {
				for _, unguarded := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/unguarded=%v", what, unguarded), func(t *testing.T) {
						m := escape.NewMembers(t)
						service := host.Service{User: c.manager, Unit: "hermes-gateway", Properties: c.properties}
						unit := startClientUnit(t, c.user, service, zoo("gatewayed", m, "ignore-both"), plain("gatewayed", programs.Zoo, "plain"))
						server := awaitServer(t, unit.first.attach(t), m, c.user.Slice())
						if unguarded {
							server.unguard()
						}
						if err := end(unit); err != nil {
							t.Fatal(err)
						}
						server.wantGone(what)
						if what != "restart" {
							return
						}
						next := unit.next.attach(t)
						if !next.Lives("new") {
							t.Errorf("the new server does not answer: %q; stderr: %s", next.Lines(), escape.Contents(next.Stderr))
						}
						if err := unit.Stop(); err != nil {
							t.Fatal(err)
						}
						escape.WantNoServers(t, c.user.Slice(), "gatewayed", patience)
					})
				}
			}
		})
	}
}

// listening is the instance of mcp-server@.service that these tests start.
type listening struct {
	t            *testing.T
	user         host.User
	unit, socket string
}

const listens = "mcp-server@listens.service"

// systemdStarts installs the template and gives its instance a command and a setting.
func systemdStarts(t *testing.T, u host.User) *listening {
	t.Helper()
	install(t, u)
	l := &listening{t: t, user: u, unit: listens, socket: "/var/lib/mcp-server/listens/socket"}
	etc, argument := "/etc", "socket"
	if u.UID != 0 {
		l.socket = u.RuntimeDir() + "/listens.socket"
		etc, argument = u.Home+"/.config", l.socket
	}
	place(t, u, etc+"/mcpscope/servers/listens", "MCP_COMMAND="+host.Shared+"/listener '"+argument+"'\n")
	config := etc + "/mcpscope/mcpscope.toml"
	place(t, u, config, "[server.listens]\nterm-grace = \"300ms\"\nmax-lifetime = \"9h\"\n")
	if err := os.Chmod(config, 0o644); err != nil { // the user of the service is another
		t.Fatal(err)
	}
	t.Cleanup(func() {
		control(t, u, "stop", listens)
		_ = host.Current(t).Manage(u, "systemctl", "reset-failed", listens).Run() // only a failed unit can be
		if u.UID == 0 {
			host.Must(t, host.Current(t).Command(u, "systemctl", "clean", "--what=state", listens))
		}
	})
	return l
}

func (l *listening) property(name string) string {
	l.t.Helper()
	return control(l.t, l.user, "show", "--value", "--property="+name, l.unit)
}

// up waits until the server answers, and returns all processes of the unit.
func (l *listening) up() []process {
	l.t.Helper()
	awaitFile(l.t, l.socket+".up")
	if err := os.Remove(l.socket + ".up"); err != nil {
		l.t.Fatal(err)
	}
	c, err := net.DialTimeout("unix", l.socket, patience)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience)) // it can't fail
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		l.t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" {
		l.t.Fatalf("it answers %q, %v", line, err)
	}
	var all []process
	err = filepath.WalkDir(l.group(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, processes(l.t, path)...)
		}
		return err
	})
	if err != nil || len(all) != 4 { // launcher, supervisor, server, its child
		l.t.Errorf("%d processes, %v", len(all), err)
	}
	return all
}

func (l *listening) group() string { return "/sys/fs/cgroup" + l.property("ControlGroup") }

// payload is the directory of the server's own group.
func (l *listening) payload() string {
	l.t.Helper()
	group := l.group()
	below, err := os.ReadDir(group) // not Glob, to which the name of the slice is a pattern
	for _, d := range below {
		if d.IsDir() && strings.HasPrefix(d.Name(), "mcp-listens-") {
			return filepath.Join(group, d.Name(), "payload")
		}
	}
	l.t.Fatalf("no group in %s: %v", group, err)
	return ""
}

// A server that systemd runs answers, has its settings by its name, comes again after a restart
// and a crash of whatever part, and leaves nothing.
func TestServerTemplate(t *testing.T) {
	if !escape.Full() {
		return // it waits for managers
	}
	host.Both(t, func(t *testing.T, u host.User) {
		l := systemdStarts(t, u)
		control(t, u, "enable", "--now", l.unit)
		all := l.up()
		buf := make([]byte, 256)
		n, err := unix.Getxattr(l.payload(), "user.mcpscope.policy", buf)
		if want := "term-grace=300ms on-client-death=auto max-lifetime=9h0m0s"; err != nil || !strings.HasSuffix(string(buf[:n]), want) {
			t.Errorf("its policy is %q, %v; want %s", buf[:n], err, want)
		}

		control(t, u, "restart", l.unit)
		dead(t, "restarted", all)
		all = l.up()

		for _, who := range []string{"launcher", "server", "both guards"} {
			victims := processes(t, l.payload())[:1]
			if who != "server" {
				victims = processes(t, l.group()) // the launcher
			}
			if who == "both guards" {
				victims = append(victims, processes(t, filepath.Dir(l.payload())+"/supervisor")...)
			}
			for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
				for _, v := range victims {
					v.Signal(sig)
				}
			}
			dead(t, who+" killed", all)
			all = l.up()
		}

		group := l.group()
		control(t, u, "stop", l.unit)
		dead(t, "stopped", all)
		if _, err := os.Stat(group); err == nil {
			t.Errorf("%s is left", group)
		}
	})
}
