// SPDX-License-Identifier: Apache-2.0

package units

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/remedy"
)

// An installation without flags keeps those of the drop-in, whatever is in them.
func TestFlagsAreKept(t *testing.T) {
	flags := []string{
		"--match=sh -c *", "--except=50% \"$X\" \\n\t\\", "--replace=true", "--idle-freeze=2s", "--match=gateway -- x",
	}
	const printed = " --replace --idle-freeze 2s --match 'gateway -- x'"
	for _, prefix := range []string{"", ":", "-"} {
		s := serviceOf(fragment("ExecStart=" + prefix + "/bin/g \"-- a\"\n"))
		f, err := dropIn(s, Programs{`"/opt/a b/mcpscope"`, exe + "ctl"}, flags...)
		if err != nil {
			t.Fatal(err)
		}
		s.Files = append(s.Files, unitFile{"/etc/systemd/system/" + f.Name, sealed(f.Text)})
		kept, err := Gateway{service: s}.Flags(nil)
		if err != nil || !kept.Kept || !slices.Equal(kept.Words, flags) || !strings.HasSuffix(kept.String(), printed) {
			t.Errorf("%q: %+v, %s, %v", prefix, kept, kept, err)
		}
		replaced, err := Gateway{service: s}.Flags(flags[3:4])
		if err != nil || replaced.Kept || !slices.Equal(replaced.Words, flags[3:4]) || replaced.String() != "--idle-freeze 2s" {
			t.Errorf("%q: replaced by %+v, %s, %v", prefix, replaced, replaced, err)
		}
		s.Files[1].Text = strings.Replace(s.Files[1].Text, "--replace", "--idle", 1)
		edited, err := Gateway{service: s}.Flags(nil)
		if err != nil || edited.Kept || len(edited.Words) > 0 {
			t.Errorf("%q: %+v are kept of an edited file, %v", prefix, edited, err)
		}
	}
	if kept := serviceOf(fragment("ExecStart=/bin/g\n")).keptFlags(); len(kept) > 0 {
		t.Errorf("without a drop-in: %q", kept)
	}
}

// Flags that this version does not know are not written again.
func TestKeptFlagsThatAreUnknown(t *testing.T) {
	s := serviceOf(fragment("ExecStart=/bin/g\n"))
	file, err := dropIn(s, both, "--of-a-later-version=1")
	if err != nil {
		t.Fatal(err)
	}
	s.Files = append(s.Files, unitFile{"/etc/systemd/system/" + file.Name, sealed(file.Text)})
	_, err = Gateway{Name: ServiceName{Entered: "g"}, service: s}.Flags(nil)
	const want = "mcpscope units --unit g --remove --now, then install it again"
	const reason = `keep the flags of its drop-in: unknown flag "--of-a-later-version"`
	if err == nil || err.Error() != reason || remedy.Of(err) != want {
		t.Errorf("%v, remedy %q, want %q", err, remedy.Of(err), want)
	}
}

// A template has no processes. The error names an instance.
func TestATemplateIsNoGateway(t *testing.T) {
	name, err := ParseServiceName("g@")
	if err != nil {
		t.Fatal(err)
	}
	const want = "g@.service is a template: name an instance, such as g@1"
	if _, err := FindGateway(name, t.TempDir()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The flag that keeps servers below the group of the unit is in the file, and the note names its reason. It is
// no flag that a person has entered.
func TestDropInOfAGateway(t *testing.T) {
	g := Gateway{Name: ServiceName{Entered: "g", Full: "g.service"}}
	g.service = serviceOf(fragment("ExecStart=/bin/g\nMemoryMax=1G\n"))
	d, err := g.DropIn(both, GatewayFlags{Words: []string{"--replace=true"}})
	if err != nil {
		t.Fatal(err)
	}
	const note = "--backend=delegated: servers get groups below that of the unit, on which its MemoryMax= act"
	if d.GroupNote != note || d.Flags.String() != "--replace" || d.LogCommand != "journalctl -t g" {
		t.Errorf("%+v", d)
	}
	const line = ` gateway "--backend=delegated" "--replace=true" -- /bin/g`
	if !strings.Contains(d.File.Text, line) {
		t.Errorf("no %s in %s", line, d.File.Text)
	}
}

// A service that does not run stays so, and a job is started by its timer.
func TestWhyNotStarted(t *testing.T) {
	start := systemctlStep("start", "g").String()
	for name, c := range map[string]struct {
		kind, state string
		want        *NotStarted
	}{
		"running": {"notify", "active", nil},
		"failed":  {"simple", "failed", nil},
		"job": {"oneshot", "inactive", &NotStarted{
			"g is Type=oneshot: it was not started, so it is not known whether its servers can be contained",
			"after its next start: journalctl -u g.service",
		}},
		"stopped": {"simple", "inactive", &NotStarted{
			"g.service does not run, and was not started: it is not known whether its servers can be contained",
			start + " && mcpscope units --unit g --install --now",
		}},
	} {
		g := Gateway{Name: ServiceName{Entered: "g", Full: "g.service"}, service: serviceOf()}
		g.service.Type = c.kind
		g.service.ActiveState = c.state
		got := g.WhyNotStarted()
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
