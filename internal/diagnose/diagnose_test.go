// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/units"
)

// sample is a gateway in a service of the system with User=.
func sample() *diagnosis {
	return &diagnosis{
		Version: 1, Mcpscope: "v1", UID: 1000, Backend: protocol.SystemdUser, Group: true,
		Backends: []Trial{
			{Backend: protocol.SystemdUser, Works: true, Milliseconds: 12, Group: true, probed: probed{Controllers: []string{"cpuset", "memory", "pids"}}},
			{Backend: protocol.Delegated, Reason: "not delegated", Remedy: "delegate it"},
		},
		Host: host{
			Kernel: "5.10.0", Old: true,
			Cgroup: groups{Mount: "/sys/fs/cgroup", Path: "/system.slice/evil\x1b[31m.service"},
			Unit:   &cli.Unit{Name: "evil\x1b[31m.service", Manager: "system", KillMode: "control-group"},
		},
	}
}

func printed(d *diagnosis) string {
	var out bytes.Buffer
	d.Print(&out)
	return out.String()
}

func TestDoctorText(t *testing.T) {
	d := sample()
	d.Host.Init.Name = "node"
	d.Advice = d.advise()
	text := printed(d)
	if !strings.HasPrefix(text, "mcpscope run uses systemd-user: ") {
		t.Errorf("the verdict is not first:\n%s", text)
	}
	for _, want := range []string{
		"works, in 12 ms; limits possible: memory, pids\n",
		"Linux 5.10.0: too old, mcpscope needs 5.14\n",
		"evil?[31m.service of the system manager\n",
		"  → sudo systemctl edit evil?[31m.service\n      [Service]\n      KillMode=mixed\n",
		"  → sudo loginctl enable-linger ",
		"run --init",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("an escape sequence reaches the terminal:\n%q", text)
	}
	if strings.Contains(text, "delegate it") {
		t.Errorf("a remedy for what would be no improvement:\n%s", text)
	}
}

// A limit in a file without its controller is printed. doctor fails as run does, and not if it may be missing.
func TestDoctorChecksLimits(t *testing.T) {
	for text, want := range map[string]int{
		"":                           cli.ExitOK,
		"limits = \"best-effort\"\n": cli.ExitOK,
		"limits = \"strict\"\n":      cli.ExitFailure,
	} {
		file := filepath.Join(t.TempDir(), "mcpscope.toml")
		limits := "[defaults]\nmemory-max = \"1G\"\n"
		if text != "" {
			limits += "cpu-max = \"50%\"\n" + text
		}
		if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"HOME": "", "XDG_CONFIG_HOME": "", "MCPSCOPE_CONFIG": file} {
			t.Setenv(name, value)
		}
		d := sample()
		d.readLimits()
		const line = "cannot be applied: systemd-user has no controller cpu\n"
		printed := printed(d)
		if d.Status() != want || strings.Contains(printed, line) != (text != "") || strings.Contains(printed, "controller memory") {
			t.Errorf("%q: status %d, want %d:\n%s", text, d.Status(), want, printed)
		}
	}
}

// A server's missing controllers have a remedy, so that the step of a limit that fails (doctor) leads on.
func TestDoctorGivesControllers(t *testing.T) {
	all := []string{"cpu", "memory", "pids"}
	for _, c := range []struct {
		trial  Trial
		hybrid bool
		want   string // "" for no remedy
	}{
		{Trial{Backend: protocol.SystemdUser, Group: true, probed: probed{Controllers: all[1:]}}, false, "for limits of cpu: sudo systemctl edit user@.service"},
		{Trial{Backend: protocol.SystemdUser, Group: true, probed: probed{Controllers: all}}, false, ""},
		{Trial{Backend: protocol.Delegated, Group: true}, false, "for limits of cpu, memory, pids: DelegateSubgroup="},
		{Trial{Backend: protocol.Cgroup, Group: true, probed: probed{Controllers: all[:1]}}, false, "echo '+memory +pids' > /sys/fs/cgroup/cgroup.subtree_control"},
		{Trial{Backend: protocol.Cgroup, Group: true}, true, "systemd.unified_cgroup_hierarchy=1"},
		{Trial{Backend: protocol.Tree}, true, ""},
	} {
		d := sample()
		d.Host.Cgroup.Hybrid = c.hybrid
		remedy := d.giveControllers(c.trial)
		if (remedy == "") != (c.want == "") || !strings.Contains(remedy, c.want) {
			t.Errorf("%s, hybrid %v: %q, want %q", c.trial.Backend, c.hybrid, remedy, c.want)
		}
		c.trial.Works = true
		c.trial.Remedy = remedy
		d.Backends = []Trial{c.trial}
		if text := printed(d); !strings.Contains(text, remedy) {
			t.Errorf("no %q in\n%s", remedy, text)
		}
	}
}

// A gateway that contains nothing is listed with its remedy, and makes doctor fail.
func TestDoctorListsUncontainedGateways(t *testing.T) {
	d := sample()
	d.Uncontained = []units.UncontainedGateway{{Unit: "g.service", Reason: "user gw may make no cgroup here", Remedy: "add Delegate=yes"}}
	text := printed(d)
	for _, want := range []string{"g: its servers are NOT contained: user gw may make no cgroup here\n", "→ add Delegate=yes\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if d.Status() != cli.ExitFailure {
		t.Errorf("status %d", d.Status())
	}
}

// A gateway whose drop-in has its former command is listed with the remedy, and makes doctor fail.
func TestDoctorListsChangedGateways(t *testing.T) {
	d := sample()
	d.Changed = []changedGateway{{Unit: "g.service", Remedy: "mcpscope units --unit g --install --now"}}
	text := printed(d)
	const want = "g: its command has changed since the drop-in was written\n"
	const remedy = "→ mcpscope units --unit g --install --now\n"
	if !strings.Contains(text, want) || !strings.Contains(text, remedy) || d.Status() != cli.ExitFailure {
		t.Errorf("status %d:\n%s", d.Status(), text)
	}
}

// A trial reads the reason from the report, whatever the server or run prints besides.
func TestTrialReadsTheReport(t *testing.T) {
	for out, want := range map[string]Trial{
		"noise\n": {},
		`{"cgroup": "/elsewhere", "controllers": ["pids"]}` + "\n" + `{"ended": "2026-11-24T00:00:00Z"}` + "\n": {
			Works: true, Group: true, probed: probed{"/elsewhere", []string{"pids"}},
		},
		`{"ended": "2026-11-24T00:00:00Z", "error": "no", "hint": "do"}` + "\n": {Reason: "no", Remedy: "do"},
	} {
		var got Trial
		if got.read([]byte(out)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", out, got, want)
		}
	}
}

// A mistake in a file of settings is printed with its place, and makes doctor fail.
func TestDoctorChecksSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nrequire = true\n[server.\"git*\"]\neof-grace = \"5s\"\nidle-timeot = \"1h\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HOME": "", "XDG_CONFIG_HOME": "", "MCPSCOPE_CONFIG": file} {
		t.Setenv(name, value)
	}
	d := sample()
	if d.Status() != cli.ExitOK {
		t.Errorf("status %d without settings", d.Status())
	}
	d.Settings = settingsProblems()
	want := file + ":5: unknown key \"idle-timeot\"\n"
	if text := printed(d); !strings.Contains(text, want) || d.Status() != cli.ExitFailure {
		t.Errorf("status %d, no %q in\n%s", d.Status(), want, text)
	}
}

// The command depends on the distribution, and on those that it is like.
func TestZramPackage(t *testing.T) {
	for release, want := range map[string]string{
		"PRETTY_NAME=\"Debian 13\"\nID=debian\n":                   "apt install systemd-zram-generator",
		"ID=ubuntu\nID_LIKE=debian\n":                              "apt install systemd-zram-generator",
		"ID=pop\nID_LIKE=\"ubuntu debian\"\n":                      "apt install systemd-zram-generator",
		"ID=fedora\n":                                              "dnf install zram-generator-defaults",
		"ID=endeavouros\nID_LIKE='arch'\n":                         "pacman -S zram-generator && echo '[zram0]' >/etc/systemd/zram-generator.conf",
		"ID=nixos\nVERSION_ID=\"26.05\"\nHOME_URL=\"https://nix\"": "",
		"": "",
	} {
		if got := zramPackage(release); got != want {
			t.Errorf("%q: %q, want %q", release, got, want)
		}
	}
}
