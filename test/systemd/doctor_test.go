// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// diagnosis is what these tests read of doctor's JSON.
type diagnosis struct {
	Version  int
	Backend  string
	Group    bool
	Backends []struct {
		Backend, Reason, Remedy string
		Works, Group, Early     bool
		Controllers             []string
	}
	Host struct {
		Managers  []struct{ Name, Version, Error string }
		Lingering *bool
		Init      struct{ Reaps bool }
		Unit      *struct {
			Name, Manager    string
			Kill_mode        string
			Delegate, Sweeps bool
		}
	}
	Advice []struct {
		Command, Drop_in string
		Reasons          []string
	}
	Selftest *struct {
		Backend string
		Passed  bool
		Cases   []struct {
			Escape, End, Problem string
			Passed               bool
		}
	}
}

// More than two buses that do not answer take, and more than is promised.
const (
	doctorWithin   = 10 * time.Second
	selftestWithin = 2 * time.Minute
)

// diagnose runs `doctor --json`: its status is 0 if a server gets a group, otherwise 1,
// and it prints nothing else.
func diagnose(t *testing.T, c *exec.Cmd) diagnosis {
	t.Helper()
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	began := time.Now()
	err := c.Run()
	took := time.Since(began)
	var d diagnosis
	if e := json.Unmarshal(out.Bytes(), &d); e != nil || said.Len() > 0 || d.Version != 1 {
		t.Fatalf("%v, %v; stdout: %s; stderr: %s", err, e, out.String(), said.String())
	}
	if limit := map[bool]time.Duration{true: doctorWithin, false: selftestWithin}[d.Selftest == nil]; took > limit {
		t.Errorf("it took %v", took)
	}
	want := 1
	if d.Group && (d.Selftest == nil || d.Selftest.Passed) {
		want = 0
	}
	if status := c.ProcessState.ExitCode(); status != want {
		t.Errorf("status %d, want %d: %s", status, want, out.String())
	}
	return d
}

// remedy is what is said of one backend that does not work.
func (d diagnosis) remedy(backend string) string {
	for _, b := range d.Backends {
		if b.Backend == backend && !b.Works {
			return b.Remedy
		}
	}
	return ""
}

func (d diagnosis) advises(text string) bool {
	for _, a := range d.Advice {
		if strings.Contains(a.Command+"\n"+a.Drop_in+"\n"+strings.Join(a.Reasons, "\n"), text) {
			return true
		}
	}
	return false
}

// remedies has, for a kind of host, a backend that does not work there and what must be
// said about it.
var remedies = map[string][2]string{
	"read-only cgroupfs":         {"cgroup", "writable-cgroups=true"},
	"no cgroupfs":                {"cgroup", "a cgroup2 mount"},
	"own cgroupfs":               {"systemd-system", "boot with systemd"},
	"host's cgroupfs":            {"cgroup", "--cgroupns=private"},
	"own subtree only":           {"cgroup", "--cgroupns=private"},
	"cgroup v1":                  {"cgroup", "a cgroup2 mount"},
	"fake root":                  {"cgroup", "root of a user namespace is not enough"},
	"unprivileged":               {"delegated", "chown 65533"},
	"dead bus":                   {"systemd-user", "systemctl restart user@65533.service"},
	"hanging bus":                {"systemd-user", "systemctl restart user@65533.service"},
	"foreign bus":                {"systemd-user", "user-runtime-dir@65533.service"},
	"hanging system manager":     {"systemd-system", "systemctl is-system-running"},
	"no /proc":                   {"cgroup", "mount -t proc"},
	"8 files":                    {"cgroup", "ulimit -n"},
	"pidfd_open ENOSYS":          {"cgroup", "let seccomp allow pidfd_open"},
	"pidfd_open EPERM":           {"cgroup", "let seccomp allow pidfd_open"},
	"unprivileged with managers": {"systemd-user", "sudo loginctl enable-linger 65533"},
}

// On every kind of host doctor names the backend that run takes.
func TestDoctorOnPoorHosts(t *testing.T) {
	kinds := append(host.Kinds(), host.HangingBus.And(host.Delegated), host.Hidepid.As(host.Tester).WithManagers(),
		host.Clone3Denied.WithManagers(), host.Unprivileged.WithManagers())
	for i, k := range kinds {
		if i%8 != 0 && !escape.Full() {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			var report struct{ Backend string }
			c := host.Poor(t, k, mcpscope, "run", "--report", "fd:1", "--", "true")
			out, _ := c.Output() // where run refuses there is no report
			_ = json.Unmarshal(out, &report)
			d := diagnose(t, host.Poor(t, k, mcpscope, "doctor", "--json").Cmd)
			if d.Backend != report.Backend && !unasked(k, report.Backend) {
				t.Errorf("doctor says %q, run takes %q", d.Backend, report.Backend)
			}
			if want, some := remedies[k.Name]; some && !strings.Contains(d.remedy(want[0]), want[1]) {
				t.Errorf("remedy of %s is not %q: %+v", want[0], want[1], d.Backends)
			}
			if k.Name == host.NoReaper.Name && (d.Host.Init.Reaps || !d.advises("run --init")) {
				t.Errorf("PID 1 reaps: %v; advice: %+v", d.Host.Init.Reaps, d.Advice)
			}
		})
	}
}

// In a service, so that what the delegated backend leaves in a client's group (an empty
// leaf) goes with it.
func TestDoctor(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		d := inService(t, u, "doctor --json")
		if want := backendOf(u); d.Backend != want || !d.Group || d.Backends[0].Backend != want || !d.Backends[1].Works {
			t.Errorf("%+v", d.Backends)
		}
		if kill := hasKill(u.Slice()); d.Backends[0].Early != kill {
			t.Errorf("servers start early: %v, but cgroup.kill (Linux 5.14): %v", d.Backends[0].Early, kill)
		}
		for _, m := range d.Host.Managers {
			if m.Version == "" || m.Error != "" {
				t.Errorf("the %s manager has no version: %s", m.Name, m.Error)
			}
		}
		if u == host.Tester && (len(d.Host.Managers) != 2 || d.Host.Lingering == nil || !*d.Host.Lingering || d.advises("linger")) {
			t.Errorf("tester lingers: %+v", d.Host)
		}
		nothingLeft(t, u, "doctor")
	})
}

func backendOf(u host.User) string {
	if u.UID == 0 {
		return "systemd-system"
	}
	return "systemd-user"
}

// nothingLeft waits for systemd to remove the scopes of a name.
func nothingLeft(t *testing.T, u host.User, name string) {
	t.Helper()
	for {
		left := u.Scopes(name)
		if len(left) == 0 {
			return
		}
		gone(t, left[0])
	}
}

// The manager of a user who does not linger goes with his last session.
func TestDoctorInALoginSession(t *testing.T) {
	if !escape.Full() {
		return // TestDoctorInAService remains
	}
	h := host.Current(t)
	for _, u := range []host.User{host.Tester, host.NoLinger} {
		t.Run(u.Name, func(t *testing.T) {
			d := diagnose(t, h.Login(t, u).Command(mcpscope, "doctor", "--json"))
			unit := d.Host.Unit
			if d.Backend != "systemd-user" || unit == nil || unit.Manager != "system" || !strings.HasPrefix(unit.Name, "session-") {
				t.Errorf("backend %q, unit %+v", d.Backend, unit)
			}
			if lingers := u == host.Tester; d.advises("sudo loginctl enable-linger 1001") == lingers || d.advises("edit") {
				t.Errorf("advice: %+v", d.Advice)
			}
		})
	}
}

// inService runs mcpscope as the only process of a service.
func inService(t *testing.T, manager host.User, args string, properties ...string) diagnosis {
	t.Helper()
	h := host.Current(t)
	properties = append([]string{"RuntimeDirectory=doctor", "RuntimeDirectoryPreserve=yes"}, properties...)
	script := mcpscope + " " + args + ` >"$RUNTIME_DIRECTORY/json"; echo $? >"$RUNTIME_DIRECTORY/status"`
	unit := h.Start(t, host.Service{User: manager, Properties: properties, Argv: []string{"sh", "-c", script}})
	if result, err := unit.Await(patience); err != nil || result != "success" {
		t.Fatalf("%s, %v", result, err)
	}
	cat := exec.Command("sh", "-c", `cat "$0/json"; exit "$(cat "$0/status")"`, strings.TrimSuffix(runtimeFile(manager, "doctor", ""), "/"))
	d := diagnose(t, cat)
	if d.Host.Unit == nil || d.Host.Unit.Name != unit.Name || !d.Host.Unit.Delegate {
		t.Errorf("it is in %s, with Delegate=yes, not in %+v", unit.Name, d.Host.Unit)
	}
	return d
}

func TestDoctorInAService(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		edit := "systemctl --user edit test-"
		if u == host.Root {
			edit = "sudo systemctl edit test-"
		}
		d := inService(t, u, "doctor --json")
		if d.Backend != backendOf(u) || d.Host.Unit.Kill_mode != "control-group" {
			t.Errorf("backend %q in %+v", d.Backend, d.Host.Unit)
		}
		if !d.advises(edit) || !d.advises("[Service]\nKillMode=mixed\n") || d.advises("ExecStopPost") {
			t.Errorf("advice: %+v", d.Advice)
		}
		if d := inService(t, u, "doctor --json", "KillMode=mixed"); len(d.Advice) != 0 {
			t.Errorf("advice where all is well: %+v", d.Advice)
		}
	})
}

// A service of the system with User= gets its scopes from the user's manager, which
// can't bind them to it.
func TestDoctorInAServiceOfTheOtherManager(t *testing.T) {
	if !escape.Full() {
		return // TestDoctorInAService remains
	}
	d := inService(t, host.Root, "doctor --json", "User=tester")
	if d.Backend != "systemd-user" || d.Host.Unit.Manager != "system" {
		t.Errorf("backend %q in %+v", d.Backend, d.Host.Unit)
	}
	for _, want := range []string{"sudo systemctl edit test-", "KillMode=mixed\n", "ExecStopPost=-" + mcpscope + " sweep\n"} {
		if !d.advises(want) {
			t.Errorf("%q is not advised: %+v", want, d.Advice)
		}
	}
	d = inService(t, host.Root, "doctor --json", "User=tester", "KillMode=mixed", "ExecStopPost=-"+mcpscope+" sweep")
	if !d.Host.Unit.Sweeps || len(d.Advice) != 0 {
		t.Errorf("unit %+v; advice where all is well: %+v", d.Host.Unit, d.Advice)
	}
}
