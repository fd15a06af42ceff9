// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// diagnosis is the part of doctor's JSON that these tests read.
type diagnosis struct {
	Backend  string
	Group    bool
	Backends []struct {
		Backend, Remedy string
		Works           bool
	}
	Host struct {
		Init struct{ Reaps bool }
		Unit *struct{ Name, Manager string }
	}
	Advice   []struct{ Reason, Command, Drop_in string }
	Selftest []struct {
		Child, End, Problem string
		Passed              bool
	}
}

// diagnose runs doctor with --json: its status is 0 if a server gets a group, otherwise 1, and it prints nothing else.
func diagnose(t *testing.T, c *exec.Cmd) diagnosis {
	t.Helper()
	var out, said bytes.Buffer
	c.Stdout = &out
	c.Stderr = &said
	err := c.Run()
	var d diagnosis
	if e := json.Unmarshal(out.Bytes(), &d); e != nil || said.Len() > 0 {
		t.Fatalf("%v, %v; stdout: %s; stderr: %s", err, e, out.String(), said.String())
	}
	if d.Group != (err == nil) {
		t.Errorf("%v: %s", err, out.String())
	}
	return d
}

// remedy returns the advice on a backend that does not work.
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
		if strings.Contains(a.Command+"\n"+a.Drop_in+"\n"+a.Reason, text) {
			return true
		}
	}
	return false
}

// inService runs doctor as the only process of a service. So what the delegated backend leaves in its client's group, an
// empty leaf, goes with it.
func inService(t *testing.T, manager, as host.User, args string, properties ...string) diagnosis {
	t.Helper()
	out := filepath.Join(host.Directory(t, as), "json")
	unit := host.Current(t).Start(t, host.Service{User: manager, Properties: append(properties, "StandardOutput=file:"+out),
		Argv: append([]string{mcpscope, "doctor", "--json"}, strings.Fields(args)...)})
	if result, err := unit.Await(patience); err != nil || result != "success" {
		t.Fatalf("%s, %v", result, err)
	}
	d := diagnose(t, exec.Command("cat", out))
	want := backendOf(as)
	if manager != as {
		want = "delegated"
	}
	if d.Backend != want || d.Host.Unit == nil || d.Host.Unit.Name != unit.Name {
		t.Errorf("backend %q; it is in %s, not in %+v", d.Backend, unit.Name, d.Host.Unit)
	}
	escape.WantNoServers(t, as.Slice(), "mcpscope-probe", patience)
	return d
}

// Doctor names the backend, and the settings that its unit lacks.
func TestDoctor(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		edit := "systemctl --user edit test-"
		if u == host.Root {
			edit = "sudo systemctl edit test-"
		}
		d := inService(t, u, u, "")
		if !d.advises(edit) || !d.advises("[Service]\nKillMode=mixed\n") || d.advises("linger") {
			t.Errorf("advice: %+v", d.Advice)
		}
		if d := inService(t, u, u, "", "KillMode=mixed"); len(d.Advice) != 0 {
			t.Errorf("advice where all is well: %+v", d.Advice)
		}
	})
}

// The manager of a user who does not linger ends with the last session. The servers of a service of the system with
// User= do not: they have groups in the service.
func TestDoctorInASessionOrServiceOfTheOtherManager(t *testing.T) {
	d := diagnose(t, host.Current(t).Login(t, host.NoLinger).Command(mcpscope, "doctor", "--json"))
	if unit := d.Host.Unit; d.Backend != "systemd-user" || unit == nil || unit.Manager != "system" || !strings.HasPrefix(unit.Name, "session-") {
		t.Errorf("backend %q, unit %+v", d.Backend, unit)
	}
	if !d.advises("sudo loginctl enable-linger nolinger") || d.advises("edit") {
		t.Errorf("advice: %+v", d.Advice)
	}
	if d = inService(t, host.Root, host.Tester, "", "User=tester", "KillMode=mixed"); len(d.Advice) != 0 {
		t.Errorf("advice where all is well: %+v", d.Advice)
	}
}

// Each server ends, with its child, in each way.
func TestSelftest(t *testing.T) {
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		d := inService(t, u, u, "--selftest")
		if len(d.Selftest) != 6 {
			t.Errorf("%d servers: %+v", len(d.Selftest), d.Selftest)
		}
		for _, c := range d.Selftest {
			if !c.Passed {
				t.Errorf("%+v", c)
			}
		}
	})
}
