// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// gatewayUnit is a service of an administrator that knows nothing of mcpscope.
type gatewayUnit struct {
	t      *testing.T
	user   host.User // of the manager
	name   string    // without ".service"
	server string    // the name of the server that its command starts
}

// newGatewayUnit places a service with a command that starts one server, and removes both at the end of the test.
func newGatewayUnit(t *testing.T, u host.User, name string, lines ...string) *gatewayUnit {
	t.Helper()
	h := host.Current(t)
	g := &gatewayUnit{t: t, user: u, name: name, server: strings.Trim(name, "@") + "-mcp"}
	program := filepath.Join(host.Shared, g.server)
	host.Must(t, exec.Command("install", "-m", "755", "/bin/sleep", program))
	t.Cleanup(func() { host.Must(t, exec.Command("rm", program)) })
	text := "[Service]\n" + message + "\nExecStart=/bin/bash -c '" + g.pipeline() + "'\n" + strings.Join(lines, "\n") + "\n"
	place(t, u, g.file(), text)
	control(t, u, "daemon-reload")
	t.Cleanup(func() {
		_ = h.Manage(u, "systemctl", "stop", g.name).Run() // it may have failed
		control(t, u, "daemon-reload")
	})
	return g
}

// message is a variable of the gateway, which writes it to its server.
const message = `Environment='MESSAGE={"jsonrpc":"2.0","id":1,"method":"tools/list"}'`

// pipeline is the script of the gateway, as a unit file spells it. The shell has both ends, as a client has. The server
// never reads the message. The shell waits without another program, for which it might need a watcher.
func (g *gatewayUnit) pipeline() string {
	program := filepath.Join(host.Shared, g.server)
	return "coproc S { exec " + program + ` infinity; }; echo "$$MESSAGE" >&"$${S[1]}"; wait; read -r _ <> <(:)`
}

func (g *gatewayUnit) file() string { return g.user.Units() + "/" + g.name + ".service" }

// units runs `mcpscope units` for the service.
func (g *gatewayUnit) units(args ...string) (said string, status int) {
	g.t.Helper()
	line := append([]string{mcpscope, "units", "--unit", g.name}, args...)
	cmd := host.Current(g.t).Command(g.user, line...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		g.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// installNow puts the service below mcpscope, and takes it away at the end of the test.
func (g *gatewayUnit) installNow(flags ...string) (said string, status int) {
	g.t.Helper()
	g.t.Cleanup(func() {
		if said, status := g.units("--remove", "--now"); status != 0 {
			g.t.Errorf("--remove: status %d: %s", status, said)
		}
	})
	_ = host.Current(g.t).Manage(g.user, "systemctl", "start", g.name).Run() // --now starts no service that was stopped
	return g.units(append(flags, "--install", "--now")...)
}

// installEdited gives the unit another text, and installs its drop-in. Then its servers are contained.
func (g *gatewayUnit) installEdited(text string) {
	g.t.Helper()
	if err := os.WriteFile(g.file(), []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
	control(g.t, g.user, "daemon-reload")
	if said, status := g.installNow(); status != 0 {
		g.t.Fatalf("status %d: %s", status, said)
	}
	g.wantContained()
}

// wantContained waits until the server of the gateway is in a group.
func (g *gatewayUnit) wantContained() {
	g.t.Helper()
	if !pace.Eventually(escape.Patience, func() bool { return len(g.servers()) > 0 }) {
		g.t.Errorf("%s is in no group", g.server)
	}
}

// want fails unless a text has all parts.
func want(t *testing.T, said string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("no %q in %q", part, said)
		}
	}
}

// A gateway of any user has its servers in groups, and the command has seen that when it succeeds.
func TestGatewayUnitOfAUser(t *testing.T) {
	for name, lines := range map[string][]string{
		"of-root": nil, "of-lingering": {"User=tester"}, "of-nolinger": {"User=nolinger"}, "of-nobody": {"DynamicUser=yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGatewayUnit(t, host.Root, name, lines...)
			said, status := g.installNow()
			if status != 0 {
				t.Fatalf("status %d: %s", status, said)
			}
			want(t, said, "\nlog: journalctl -t "+name+"\n")
			g.wantContained()
		})
	}
}

// A stop and a restart of the unit wait until its servers have ended and each end is written, also of one whose stdin
// and stdout another process of the unit holds open: in the unit systemd kills each process that is left, also a
// watcher. In scopes of the manager it would start the next gateway beside the servers of the last one.
func TestGatewayUnitAwaitsEnds(t *testing.T) {
	const holder = `exec 8>&"$${S[1]}" 9<&"$${S[0]}"; sleep infinity & `
	for name, c := range map[string]struct {
		of    host.User
		held  string
		lines []string
	}{
		"ends-plain": {host.Root, "", []string{"User=nolinger", "TimeoutStopSec=10s"}},
		"ends-held":  {host.Root, holder, []string{"User=nolinger", "TimeoutStopSec=10s"}},
		"ends-root":  {host.Root, "", []string{"TimeoutStopSec=10s"}},
		"ends-user":  {host.Tester, "", []string{"TimeoutStopSec=10s"}},
	} {
		for _, verb := range []string{"stop", "restart"} {
			t.Run(name+" "+verb, func(t *testing.T) {
				t.Parallel()
				g := newGatewayUnit(t, c.of, name+"-"+verb, c.lines...)
				text := host.Must(t, exec.Command("cat", g.file()))
				text = strings.Replace(text, "wait; ", c.held+"wait; ", 1)
				text = strings.Replace(text, "{ exec ", `{ trap "" TERM; exec `, 1)
				g.installEdited(text)
				ids := g.servers()
				control(t, c.of, verb, g.name)
				for _, id := range g.servers() {
					if slices.Contains(ids, id) {
						t.Errorf("%s runs when systemctl %s has returned", id, verb)
					}
				}
				for _, id := range ids {
					end := []string{"journalctl", "--output=cat", "MCPSCOPE_EVENT=ended", "MCPSCOPE_ID=" + id}
					written := func() bool {
						out, err := host.Current(t).Command(host.Root, end...).Output()
						return err == nil && strings.Contains(string(out), " ended after ")
					}
					if !pace.Eventually(escape.Patience, written) {
						t.Errorf("no end of %s is in the journal", id)
					}
				}
				if result := control(t, c.of, "show", "--value", "--property=Result", g.name); result != "success" {
					t.Errorf("the result of the unit is %s", result)
				}
			})
		}
	}
}

const weaker = "contained without cgroups, which is weaker: "

// A gateway whose servers can have no cgroups is reported, with the remedy.
func TestGatewayUnitWithoutCgroups(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "closed", "User=nolinger")
	place(t, host.Root, g.file()+".d/zzz.conf", "[Service]\nDelegate=no\n")
	said, status := g.installNow()
	if status != 0 {
		t.Errorf("status %d: %s", status, said)
	}
	const reason = weaker + "user nolinger may make no cgroup here"
	want(t, said, reason, "hint: add Delegate=yes (systemctl edit closed.service)")
	want(t, doctor(t), "closed: its servers are "+reason, "→ add Delegate=yes (systemctl edit closed.service)")
}

// A manager makes the groups of a unit whose own view of them is read-only, and no server gets into one: it
// is contained without.
func TestGatewayUnitWithReadOnlyGroups(t *testing.T) {
	for name, user := range map[string]host.User{"readonly-root": host.Root, "readonly-lingering": host.Tester} {
		t.Run(name, func(t *testing.T) {
			g := newGatewayUnit(t, host.Root, name, "ProtectControlGroups=yes", "User="+user.Name)
			said, status := g.installNow()
			if status != 0 {
				t.Errorf("status %d: %s", status, said)
			}
			const reason = weaker + "its control groups are read-only (ProtectControlGroups=yes)"
			want(t, said, reason, "add ProtectControlGroups=no")
			want(t, doctor(t), name+": its servers are "+reason)
		})
	}
}

// A filter of system calls that would kill the gateway, or its watcher at the first server, is refused before
// anything is written. With the line of the message the server is contained.
func TestGatewayUnitWithACallFilter(t *testing.T) {
	for name, filter := range map[string]string{"filter-all": "@system-service", "filter-watcher": "@system-service seccomp"} {
		t.Run(name, func(t *testing.T) {
			g := newGatewayUnit(t, host.Root, name, "SystemCallFilter="+filter)
			said, status := g.units("--install", "--now")
			_, line, found := strings.Cut(strings.TrimSpace(said), "forbids system calls that mcpscope needs; add ")
			if status != 1 || !found {
				t.Fatalf("status %d: %s", status, said)
			}
			host.Must(t, exec.Command("test", "!", "-e", g.file()+".d"))
			place(t, host.Root, g.file()+".d/calls.conf", "[Service]\n"+line+"\n")
			if said, status := g.installNow(); status != 0 {
				t.Fatalf("status %d: %s", status, said)
			}
			g.wantContained()
		})
	}
}

// A service that ran, and cannot run below mcpscope, runs on without it. One that did not run is reported with the
// way back.
func TestGatewayUnitThatDoesNotRun(t *testing.T) {
	for name, line := range map[string]string{
		"hidden": "InaccessiblePaths=" + mcpscope, "noexec": "NoExecPaths=" + filepath.Dir(mcpscope), "rooted": "RootDirectory=/",
		"restarting": "Restart=always\nRestartSec=1ms\nNoExecPaths=" + filepath.Dir(mcpscope) + "\n[Unit]\nStartLimitBurst=3\nStartLimitIntervalSec=1h",
	} {
		t.Run(name, func(t *testing.T) {
			lines := []string{line}
			if name == "rooted" { // a root without mcpscope, with the programs of the gateway
				root := host.Directory(t, host.Root)
				lines = []string{"RootDirectory=" + root, "MountAPIVFS=yes"}
				for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr", "/etc"} {
					lines = append(lines, "BindReadOnlyPaths=-"+dir)
				}
			}
			g := newGatewayUnit(t, host.Root, name, lines...)
			if name == "rooted" { // its server is not there
				text := "[Service]\n" + strings.Join(lines, "\n") + "\nExecStart=/bin/sleep infinity\n"
				if err := os.WriteFile(g.file(), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				control(t, host.Root, "daemon-reload")
			}
			bare := words(t, name)
			said, status := g.installNow()
			if status != 1 {
				t.Errorf("status %d: %s", status, said)
			}
			want(t, said, "cannot run "+name+" below mcpscope: "+name+".service ", name+" runs as before")
			if name != "restarting" { // of which the last end may not be known
				want(t, said, "does not run: systemd could not execute mcpscope there")
			}
			if state := control(t, host.Root, "show", "--value", "--property=ActiveState", name); state != "active" {
				t.Errorf("the service is %s", state)
			}
			if got := words(t, name); got != bare {
				t.Errorf("the words are %q, before %q", got, bare)
			}
			host.Must(t, exec.Command("test", "!", "-e", g.file()+".d"))
		})
	}
	t.Run("neither way", func(t *testing.T) {
		g := newGatewayUnit(t, host.Root, "neither")
		if said, status := g.installNow("--replace"); status != 0 {
			t.Fatalf("status %d: %s", status, said)
		}
		dropIn := g.file() + ".d/zz-mcpscope.conf"
		before := host.Must(t, exec.Command("cat", dropIn))
		place(t, host.Root, g.file()+".d/closed.conf", "[Service]\nNoExecPaths=/\n")
		control(t, host.Root, "daemon-reload")
		said, status := g.units("--term-grace", "5s", "--install", "--now")
		if status != 1 || strings.Contains(said, "runs as before") {
			t.Errorf("status %d: %s", status, said)
		}
		want(t, said, "dropped: --replace=true", "restored "+dropIn, "cannot run neither as before: neither.service does not run: ")
		if after := host.Must(t, exec.Command("cat", dropIn)); after != before {
			t.Errorf("the drop-in is %s", after)
		}
	})
	t.Run("failed before", func(t *testing.T) {
		g := newGatewayUnit(t, host.Root, "failed-before")
		if err := os.WriteFile(g.file(), []byte("[Service]\nExecStart=/bin/false\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		control(t, host.Root, "daemon-reload")
		said, status := g.installNow()
		if status != 1 {
			t.Errorf("status %d: %s", status, said)
		}
		want(t, said, "failed-before.service does not run: it is failed, its result is exit-code",
			"mcpscope units --unit failed-before --remove --now && systemctl start failed-before")
	})
}

// PAM moves a service into a session. It is judged by where its processes are.
func TestGatewayUnitWithPAM(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "with-pam", "User=tester", "PAMName=login")
	// A bare server is not in the unit either: it has to end by itself.
	host.Must(t, exec.Command("install", "-m", "755", "/bin/cat", filepath.Join(host.Shared, g.server)))
	text := host.Must(t, exec.Command("cat", g.file()))
	if err := os.WriteFile(g.file(), []byte(strings.Replace(text, " infinity;", ";", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	control(t, host.Root, "daemon-reload")
	said, status := g.installNow()
	if status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	want(t, said, "with-pam runs: ")
	g.wantContained()
	if said := doctor(t); strings.Contains(said, "with-pam: ") {
		t.Errorf("doctor says %s", said)
	}
}

// Root's doctor lists a service that runs without its drop-in, and a gateway without a drop-in and cgroups.
func TestDoctorListsGatewaysThatLackContainment(t *testing.T) {
	bare := newGatewayUnit(t, host.Root, "bare")
	control(t, host.Root, "start", "bare")
	install(t, host.Root, mcpscope, "--unit", "bare")
	host.Current(t).Start(t, host.Service{
		User: host.Root, Unit: "by-hand", Properties: []string{"User=nolinger", "Delegate=no"},
		Argv: []string{mcpscope, "gateway", "--", "/bin/sleep", "infinity"},
	})
	said := ""
	listed := func() bool {
		said = doctor(t)
		return strings.Contains(said, "by-hand: its servers are "+weaker)
	}
	if !pace.Eventually(escape.Patience, listed) { // its watcher may not have found out yet
		t.Errorf("it says %s", said)
	}
	want(t, said, "bare: its servers are NOT contained: it was started before the drop-in was installed", "→ systemctl restart bare.service")
	control(t, host.Root, "restart", "bare")
	bare.wantContained()
	if said := doctor(t); strings.Contains(said, "bare: its servers are NOT") {
		t.Errorf("it says %s", said)
	}
}

// Without watcher and guard a gateway can start no program. doctor says that, with the remedy.
func TestDoctorListsGatewaysWithoutGuard(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "unguarded")
	if said, status := g.installNow(); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	g.wantContained()
	control(t, host.Root, "stop", "mcpscope-gateway-*.scope") // both are in it
	const reason = "unguarded: its servers are NOT contained: its watcher and guard were killed, and it can start no program"
	said := ""
	listed := func() bool {
		said = doctor(t)
		return strings.Contains(said, reason) && strings.Contains(said, "→ systemctl restart unguarded.service")
	}
	if !pace.Eventually(escape.Patience, listed) {
		t.Errorf("it says %s", said)
	}
	figures := host.Must(t, host.Current(t).Command(host.Root, mcpscope, "metrics", "--all-users"))
	if strings.Contains(figures, "\nmcpscope_uncontained_gateways 0.0\n") {
		t.Errorf("the metric does not have it:\n%s", figures)
	}
	control(t, host.Root, "restart", "unguarded")
	g.wantContained()
}

// The drop-in wins against the one of `systemctl edit`. Where another one wins, nothing is started or left.
func TestGatewayUnitWithAnOverride(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "edited")
	text := host.Must(t, exec.Command("cat", g.file()))
	place(t, host.Root, g.file()+".d/override.conf", strings.Replace(text, "ExecStart=", "ExecStart=\nExecStart=", 1))
	if err := os.WriteFile(g.file(), []byte("[Service]\nExecStart=/bin/false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	control(t, host.Root, "daemon-reload")
	if said, status := g.installNow(); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	g.wantContained()

	later := newGatewayUnit(t, host.Root, "later")
	place(t, host.Root, later.file()+".d/zzz.conf", "[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n")
	said, status := later.units("--install", "--now")
	if status != 1 {
		t.Errorf("status %d: %s", status, said)
	}
	want(t, said, "one of these sorts after zz-mcpscope.conf: "+later.file()+".d/zzz.conf")
	if state := control(t, host.Root, "show", "--value", "--property=ActiveState", "later"); state != "inactive" {
		t.Errorf("the service is %s", state)
	}
	host.Must(t, exec.Command("test", "!", "-e", later.file()+".d/zz-mcpscope.conf"))
}

// Services of each kind that a gateway can have.
func TestGatewayUnitKinds(t *testing.T) {
	contained := func(t *testing.T, g *gatewayUnit) {
		t.Helper()
		if said, status := g.installNow(); status != 0 {
			t.Fatalf("status %d: %s", status, said)
		}
		g.wantContained()
	}
	t.Run("notify", func(t *testing.T) {
		g := newGatewayUnit(t, host.Root, "kind-notify")
		text := "[Service]\nType=notify\nNotifyAccess=all\nExecStart=\n" +
			"ExecStart=/bin/bash -c 'systemd-notify --ready; " + g.pipeline() + "'\n"
		place(t, host.Root, g.file()+".d/notify.conf", text)
		contained(t, g)
	})
	t.Run("exec", func(t *testing.T) { contained(t, newGatewayUnit(t, host.Root, "kind-exec", "Type=exec")) })
	t.Run("instance", func(t *testing.T) {
		g := newGatewayUnit(t, host.Root, "kind-template@")
		g.name = "kind-template@1"
		contained(t, g)
	})
	t.Run("user's manager", func(t *testing.T) { contained(t, newGatewayUnit(t, host.Tester, "kind-user")) })
	t.Run("oneshot", func(t *testing.T) {
		g := newGatewayUnit(t, host.Root, "kind-oneshot", "Type=oneshot")
		said, status := g.units("--install", "--now")
		t.Cleanup(func() { g.units("--remove", "--now") })
		want(t, said, "kind-oneshot.service is Type=oneshot, and was not started", "journalctl -u kind-oneshot.service")
		if state := control(t, host.Root, "show", "--value", "--property=ActiveState", g.name); status != 0 || state != "inactive" {
			t.Errorf("status %d, the service is %s", status, state)
		}
		control(t, host.Root, "start", "--no-block", g.name)
		g.wantContained()
	})
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"kind-forking":  {[]string{"Type=forking"}, "kind-forking.service is Type=forking"},
		"kind-several":  {[]string{"Type=oneshot", "ExecStart=/bin/true"}, "kind-several.service starts 2 commands"},
		"kind-alltmpl@": {nil, "kind-alltmpl@.service is a template: name an instance, such as kind-alltmpl@1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGatewayUnit(t, host.Root, name, c.lines...)
			said, status := g.units("--install", "--now")
			want(t, said, c.want)
			if left, err := filepath.Glob(g.file() + ".d/*"); status != 1 || err != nil || len(left) > 0 {
				t.Errorf("status %d, left: %q, %v", status, left, err)
			}
		})
	}
	absent := &gatewayUnit{t: t, user: host.Root, name: "kind-absent"}
	said, status := absent.units("--install")
	if status != 1 {
		t.Errorf("status %d: %s", status, said)
	}
	want(t, said, "kind-absent.service: there is no such unit", "hint: systemctl list-units --type=service")
}

// A service that a person has stopped is not started, neither by an installation nor by a removal.
func TestGatewayUnitThatWasStopped(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "stopped")
	said, status := g.units("--install", "--now")
	want(t, said, "stopped.service does not run, and was not started", "hint: systemctl start stopped && mcpscope units --unit stopped --install --now\n")
	removed, removal := g.units("--remove", "--now")
	if state := control(t, host.Root, "show", "--value", "--property=ActiveState", g.name); status != 0 || removal != 0 || state != "inactive" {
		t.Errorf("status %d and %d, the service is %s: %s", status, removal, state, removed)
	}
}

// Settings that act on the control group of a unit act on the servers, too: they stay below that group.
func TestGatewayUnitKeepsWhatItsGroupHas(t *testing.T) {
	for name, user := range map[string]host.User{"sandboxed-root": host.Root, "sandboxed-lingering": host.Tester} {
		t.Run(name, func(t *testing.T) {
			g := newGatewayUnit(t, host.Root, name, "IPAddressDeny=any", "DevicePolicy=closed", "User="+user.Name)
			said, status := g.installNow()
			if status != 0 {
				t.Fatalf("status %d: %s", status, said)
			}
			want(t, said, "--backend=delegated: servers get groups below that of the unit, on which its DevicePolicy=, IPAddressDeny= act")
			g.wantContained()
			if groups, err := filepath.Glob(g.group() + "/mcp-" + g.server + "-*"); err != nil || len(groups) != 1 {
				t.Errorf("below the unit are %q, %v", groups, err)
			}
			said, _ = g.units("--install", "--now", "--backend", "systemd-system")
			want(t, said, "will not act on its servers: with --backend=systemd-system they are outside of its group")
		})
	}
}

// An alias stands for its unit, and a removal says so if another drop-in is left.
func TestGatewayUnitByAnAlias(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "aliased")
	alias := *g
	alias.name = "alias"
	host.Must(t, exec.Command("ln", "-s", g.file(), alias.file()))
	t.Cleanup(func() { host.Must(t, exec.Command("rm", "-r", alias.file())) })
	control(t, host.Root, "daemon-reload")
	if said, status := alias.installNow(); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	host.Must(t, exec.Command("test", "-e", g.file()+".d/zz-mcpscope.conf"))
	if said, status := alias.units("--remove", "--now"); status != 0 || strings.Contains(words(t, g.name), " gateway -- ") {
		t.Errorf("status %d, the words are %q: %s", status, words(t, g.name), said)
	}
	if said, status := alias.units("--install", "--now"); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	host.Must(t, exec.Command("cp", "-r", g.file()+".d", alias.file()+".d"))
	t.Cleanup(func() { host.Must(t, exec.Command("rm", "-r", alias.file()+".d")) })
	said, status := g.units("--remove", "--now")
	if status != 1 {
		t.Errorf("status %d: %s", status, said)
	}
	want(t, said, "cannot take aliased out of mcpscope: its command is still mcpscope gateway, by one of ", alias.file()+".d/zz-mcpscope.conf")
	host.Must(t, exec.Command("rm", alias.file()+".d/zz-mcpscope.conf"))
	said, status = (&gatewayUnit{t: t, user: host.Root, name: "no-such"}).units("--remove", "--now")
	if status != 1 {
		t.Errorf("status %d: %s", status, said)
	}
	want(t, said, "no-such.service: there is no such unit")
}

// A flag of the command is one of the gateway: it contains a server that nothing else shows to be one.
func TestGatewayUnitWithFlags(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "flagged")
	plain := filepath.Join(host.Shared, "100% plain $tool")
	host.Must(t, exec.Command("install", "-m", "755", "/bin/cat", plain))
	t.Cleanup(func() { host.Must(t, exec.Command("rm", plain)) })
	text := `[Service]
ExecStart=/bin/sh -c 'sleep infinity | "` + host.Shared + `/100%% plain $$tool" | cat'
`
	if err := os.WriteFile(g.file(), []byte(strings.Replace(text, "$$", `\\$$`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	control(t, host.Root, "daemon-reload")
	if said, status := g.installNow("--match", "100% plain $t?ol"); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	listed := func() bool {
		said := host.Must(t, host.Current(t).Command(host.Root, mcpscope, "ls", "--json"))
		return strings.Contains(said, "plain")
	}
	if !pace.Eventually(escape.Patience, listed) {
		t.Error("it is in no group")
	}

	// An installation without flags, such as one after an update of mcpscope, keeps them.
	before := words(t, g.name)
	said, status := g.units("--install", "--now")
	if after := words(t, g.name); status != 0 || after != before {
		t.Errorf("status %d, the words are %q, before %q", status, after, before)
	}
	want(t, said, "kept: --match='100% plain $t?ol'\n")
	said, status = g.units("--install", "--now", "--replace")
	if after := words(t, g.name); status != 0 || strings.Contains(after, "--match") {
		t.Errorf("status %d, the words are %q", status, after)
	}
	want(t, said, "flags: --replace=true\n", "dropped: --match='100% plain $t?ol'\n")
}

// The former command runs on after an update of the unit. doctor lists that, and its remedy is sufficient.
func TestDoctorListsAChangedCommand(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "updated")
	if said, status := g.installNow("--replace"); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	const changed = "updated: its command has changed since its drop-in was written"
	if said := doctor(t); strings.Contains(said, changed) {
		t.Errorf("before the change it says %s", said)
	}
	place(t, host.Root, g.file()+".d/override.conf", "[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n")
	control(t, host.Root, "daemon-reload")
	want(t, doctor(t), changed, "→ mcpscope units --unit updated --install --now\n")
	if said, status := g.units("--install", "--now"); status != 0 {
		t.Errorf("status %d: %s", status, said)
	}
	if line := words(t, g.name); !strings.HasSuffix(line, " gateway --replace=true -- /bin/sleep infinity") {
		t.Errorf("the words are %q", line)
	}
	if said := doctor(t); strings.Contains(said, changed) {
		t.Errorf("after the installation it says %s", said)
	}
}

// A removal without --now, or by rm, is finished by the next command with --now.
func TestGatewayUnitRemovedInTwoSteps(t *testing.T) {
	g := newGatewayUnit(t, host.Root, "two-steps")
	wantBare := func() {
		t.Helper()
		if said, status := g.units("--remove", "--now"); status != 0 {
			t.Errorf("status %d: %s", status, said)
		} else {
			want(t, said, "absent ", "done: systemctl daemon-reload\n")
			want(t, said, "done: systemctl try-restart two-steps\n")
		}
		if line := words(t, g.name); strings.Contains(line, " gateway -- ") {
			t.Errorf("the words are %q", line)
		}
		if said, _ := g.units("--remove", "--now"); strings.Contains(said, "done: ") {
			t.Errorf("there is nothing to do, and it says %s", said)
		}
	}
	if said, status := g.installNow(); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	said, _ := g.units("--remove")
	want(t, said, "removed ", "now: systemctl daemon-reload && systemctl try-restart two-steps\n")
	said, _ = g.units("--remove")
	want(t, said, "absent ", "now: systemctl daemon-reload && systemctl try-restart two-steps\n")
	wantBare()

	if said, status := g.units("--install", "--now"); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	host.Must(t, exec.Command("rm", "-r", g.file()+".d"))
	said, status := g.units("--install")
	if status != 1 {
		t.Errorf("status %d: %s", status, said)
	}
	want(t, said, "hint: systemctl daemon-reload")
	if said, status := g.units("--install", "--now"); status != 0 {
		t.Errorf("status %d: %s", status, said)
	}
	g.wantContained()
	host.Must(t, exec.Command("rm", "-r", g.file()+".d"))
	wantBare()
}

// Sessions of a gateway that are to outlive a restart do so, also below mcpscope. Its servers do not.
func TestGatewayUnitWithSessions(t *testing.T) {
	for _, user := range []host.User{host.Root, host.NoLinger} {
		t.Run(user.Name, func(t *testing.T) {
			g := newGatewayUnit(t, host.Root, "sessions-"+user.Name, "KillMode=process", "User="+user.Name)
			dir := host.Directory(t, user)
			text := host.Must(t, exec.Command("cat", g.file()))
			text = strings.Replace(text, "bash -c '", "bash -c 'sleep infinity & echo $! >"+dir+"/session; ", 1)
			g.installEdited(text)
			first := g.servers()
			session := g.session(dir)
			if mode := control(t, host.Root, "show", "--value", "--property=KillMode", g.name); mode != "process" {
				t.Errorf("KillMode is %s", mode)
			}
			control(t, host.Root, "restart", g.name)
			another := func() bool { s := g.servers(); return len(s) == 1 && s[0] != first[0] }
			if !pace.Eventually(escape.Patience, another) {
				t.Errorf("after the restart there are %q, before %q", g.servers(), first)
			}
			next := g.session(dir)
			control(t, host.Root, "stop", g.name)
			if !pace.Eventually(escape.Patience, func() bool { return len(g.servers()) == 0 }) {
				t.Errorf("after the stop there are %q", g.servers())
			}
			for _, pidfd := range []int{session, next} {
				if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
					t.Errorf("a session: %v", err)
				}
			}
			control(t, host.Root, "kill", "--signal=KILL", g.name)
			for _, pidfd := range []int{session, next} {
				polls := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
				if _, err := unix.Poll(polls, -1); err != nil {
					t.Errorf("a session: %v", err)
				}
			}
		})
	}
}

// group is the directory of the unit's control group, which systemd forgets at a stop.
func (g *gatewayUnit) group() string {
	return filepath.Dir(g.user.Slice()) + "/system.slice/" + g.name + ".service"
}

// session is a pidfd of the last session that the gateway has started.
func (g *gatewayUnit) session(dir string) int {
	g.t.Helper()
	text, err := os.ReadFile(dir + "/session")
	if err != nil {
		g.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		g.t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		g.t.Fatalf("session %d: %v", pid, err)
	}
	g.t.Cleanup(func() { _ = unix.Close(pidfd) })
	return pidfd
}

// servers are the ids of the gateway's servers.
func (g *gatewayUnit) servers() (ids []string) {
	g.t.Helper()
	var list struct {
		Servers []struct{ ID, Name string }
	}
	line := []string{mcpscope, "ls", "--json"}
	if g.user == host.Root {
		line = append(line, "--all-users")
	}
	said := host.Must(g.t, host.Current(g.t).Command(g.user, line...))
	if err := json.Unmarshal([]byte(said), &list); err != nil {
		g.t.Fatal(err)
	}
	for _, s := range list.Servers {
		if s.Name == g.server {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// The command keeps its words, however the unit file spells them, and a comment stays one.
func TestGatewayUnitKeepsItsCommand(t *testing.T) {
	for name, lines := range map[string]string{
		"comment":   "ExecStart=/bin/sleep --listen \\\n  # --allow-all \\\n  --port 8000",
		"semicolon": "ExecStart=/bin/sleep a \\\n; --allow-all\n b",
		"hidden":    "# ExecStart=/bin/false \\\nExecStart=/bin/sleep 1",
		"quotes":    `ExecStart=-:"/bin/sleep" $X "a  b" 'q"q' \x41 100%%n 'a\tb' ";" "" %n`,
		"hash":      "ExecStart=/bin/sleep # x",
		"backslash": "ExecStart=/bin/sleep a\\\\\nExecStartPre=/bin/true",
		"override":  "ExecStart=/bin/false\nExecStart=\n[X-Service]\nExecStart=/bin/false\n[Service]\nExecStart=sleep 1",
	} {
		t.Run(name, func(t *testing.T) {
			unit := "words-" + name
			place(t, host.Root, host.Root.Units()+"/"+unit+".service", "[Service]\n"+lines+"\n")
			control(t, host.Root, "daemon-reload")
			bare := words(t, unit)
			install(t, host.Root, mcpscope, "--unit", unit)
			if got, want := words(t, unit), mcpscope+" gateway -- "+bare; got != want {
				t.Errorf("the words are %q, want %q", got, want)
			}
		})
	}
}

// words are those of the command of a service as the system manager prints them.
func words(t *testing.T, unit string) string {
	t.Helper()
	said := control(t, host.Root, "show", "--value", "--property=ExecStart", unit)
	_, said, _ = strings.Cut(said, "argv[]=")
	said, _, found := strings.Cut(said, " ; ignore_errors=")
	if !found {
		t.Fatalf("it prints %q", said)
	}
	return said
}

// doctor is the output of root's doctor, whatever its status.
func doctor(t *testing.T) string {
	t.Helper()
	out, err := host.Current(t).Command(host.Root, mcpscope, "doctor").Output()
	if len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}
