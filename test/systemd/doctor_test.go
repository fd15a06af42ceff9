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
	Backend string
	Group   bool
	Host    struct {
		Backends []struct {
			Backend, Fix string
			Usable       bool
		}
		Init struct{ Reaps bool }
		Unit *struct{ Name, Manager string }
	}
	Problems []struct {
		Capability, What, Why, Fix, Drop_in string
		Minor                               bool
	}
	Selftest []struct {
		Child, End, Problem string
		Passed              bool
	}
}

// diagnose runs doctor with --json: its status is 0 if nothing has to be repaired, otherwise 1, and it prints nothing else.
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
	isHealthy := true
	for _, p := range d.Problems {
		isHealthy = isHealthy && p.Minor
	}
	if isHealthy != (err == nil) || isHealthy && !d.Group {
		t.Errorf("%v: %s", err, out.String())
	}
	return d
}

// fix returns the next step for a backend that cannot be used.
func (d diagnosis) fix(backend string) string {
	for _, b := range d.Host.Backends {
		if b.Backend == backend && !b.Usable {
			return b.Fix
		}
	}
	return ""
}

func (d diagnosis) advises(text string) bool {
	for _, p := range d.Problems {
		if strings.Contains(p.What+"\n"+p.Why+"\n"+p.Fix+"\n"+p.Drop_in, text) {
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
			t.Errorf("problems: %+v", d.Problems)
		}
		if d := inService(t, u, u, "", "KillMode=mixed"); d.advises("KillMode") || d.advises("linger") {
			t.Errorf("advice where all is well: %+v", d.Problems)
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
		t.Errorf("problems: %+v", d.Problems)
	}
	d = inService(t, host.Root, host.Tester, "", "User=tester", "KillMode=mixed")
	if d.advises("KillMode") || d.advises("linger") {
		t.Errorf("advice where all is well: %+v", d.Problems)
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
