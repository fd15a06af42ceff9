// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// An installation without flags keeps those of the drop-in, whatever is in them. One with flags names those that it
// drops.
func TestFlagsOfADropIn(t *testing.T) {
	flags := []string{
		"--match=sh -c *", "--except=50% \"$X\" \\n\t\\", "--replace=true", "--idle-freeze=2s", "--match=gateway -- x",
	}
	const printed = " --replace=true --idle-freeze=2s --match='gateway -- x'"
	for _, prefix := range []string{"", "no-env-expand", "ignore-failure"} {
		s := serviceOf("/bin/g", "-- a")
		if prefix != "" {
			s.Commands[0].Flags = []string{prefix}
		}
		o, ok := parseOverride(dropInFor(t, s, flags...))
		if !ok {
			t.Fatalf("%s: it cannot be read", prefix)
		}
		kept, err := Gateway{override: o}.Flags(nil)
		if err != nil || !kept.Kept || !slices.Equal(kept.Words, flags) || !strings.HasSuffix(PrintFlags(kept.Words), printed) {
			t.Errorf("%q: %+v, %v", prefix, kept, err)
		}
		g := Gateway{override: o, service: serviceOf("/bin/g")}
		replaced, err := g.Flags([]string{"--idle-freeze=2s", "--memory-max=1G"})
		dropped := slices.Concat(flags[:3], flags[4:])
		if d := g.DropIn(both, replaced); err != nil || replaced.Kept || !slices.Equal(d.Dropped, dropped) {
			t.Errorf("%q: replaced by %+v, %q, %v", prefix, replaced, d.Dropped, err)
		}
	}
	if kept, err := (Gateway{}).Flags(nil); err != nil || len(kept.Words) > 0 || kept.Kept {
		t.Errorf("without a drop-in: %+v, %v", kept, err)
	}
}

// Flags that this version does not know are not written again.
func TestKeptFlagsThatAreUnknown(t *testing.T) {
	g := Gateway{Name: ServiceName{Entered: "g"}, override: override{Flags: []string{"--of-a-later-version=1"}}}
	_, err := g.Flags(nil)
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
	if _, err := FindGateway(name, t.TempDir(), false); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// installedGateway is a gateway with a drop-in in a directory of units, whose files have not changed since.
func installedGateway(t *testing.T) (Gateway, string) {
	t.Helper()
	g := Gateway{Name: ServiceName{Entered: "g", Full: "g.service"}, dir: t.TempDir(), service: serviceOf("/bin/g")}
	if err := g.findOverride(nil, false); err != nil {
		t.Fatal(err)
	}
	d := g.DropIn(both, GatewayFlags{Words: []string{"--replace=true"}})
	if _, err := d.Install(); err != nil {
		t.Fatal(err)
	}
	return g, d.Path()
}

// Of an installed drop-in the command and the flags are read there. One that was printed, and placed by hand, is
// as good. One that was edited is not.
func TestAnInstalledDropInIsRead(t *testing.T) {
	g, path := installedGateway(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"installed":        {string(text), nil},
		"printed":          {string(text) + "\n", nil},
		"edited":           {string(text) + "Nice=5\n", ErrChanged},
		"another's":        {"[Service]\n", ErrChanged},
		"of another state": {sealed(strings.Replace(g.DropIn(both, GatewayFlags{}).File.Text, "crc 0", "crc 1", 1)), ErrOutdated},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		again := Gateway{Name: g.Name, dir: g.dir, service: serviceOf("/opt/mcpscope", "gateway", "--", "/bin/g")}
		err := again.findOverride(nil, false)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		isRead := slices.Equal(again.override.Command, []string{"/bin/g"}) && slices.Equal(again.override.Flags, []string{"--replace=true"})
		if c.want == nil && !isRead {
			t.Errorf("%s: %+v", name, again.override)
		}
	}
}

// Without a drop-in the manager has the command, if it has read the files.
func TestAServiceThatWasNotRead(t *testing.T) {
	g := Gateway{dir: t.TempDir(), service: serviceOf("/bin/g")}
	g.service.Outdated = true
	err := g.findOverride(nil, false)
	if !errors.Is(err, ErrOutdated) || !strings.HasSuffix(remedy.Of(err), " daemon-reload") {
		t.Errorf("%v, %s", err, remedy.Of(err))
	}
}

// The manager decides whether a drop-in is in force, and whether it has the words of the command.
func TestCheckCommand(t *testing.T) {
	g := Gateway{service: serviceOf("/bin/g", "a b", "$X")}
	if err := g.findOverride(nil, false); err != nil {
		t.Fatal(err)
	}
	d := g.DropIn(both, GatewayFlags{Words: []string{"--match=$"}})
	below := func(words ...string) systemd.Service {
		return serviceOf(append([]string{"/opt/mcpscope", "gateway"}, words...)...)
	}
	twice := below("--match=$$", "--", "/bin/g", "a b", "$X")
	twice.Commands = append(twice.Commands, twice.Commands...)
	overridden := serviceOf("/bin/g")
	overridden.DropIns = []string{"/run/g.service.d/zz-mcpscope.conf", "/etc/g.service.d/zzz.conf"}
	for name, c := range map[string]struct {
		after systemd.Service
		want  string
	}{
		"in force":             {below("--match=$$", "--", "/bin/g", "a b", "$X"), ""},
		"other flags":          {below("--", "/bin/g", "a b", "$X"), "instead"},
		"other words":          {below("--match=$$", "--", "/bin/g", "a", "b", "$X"), "instead"},
		"a second command":     {twice, "instead"},
		"another drop-in wins": {overridden, "one of these sorts after zz-mcpscope.conf: /etc/g.service.d/zzz.conf"},
	} {
		err := d.checkCommand(c.after)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The administrator of a host whose units are in a store gets the text of the drop-in.
func TestReadOnlyUnits(t *testing.T) {
	d := DropIn{Gateway: Gateway{Name: ServiceName{Entered: "g"}}}
	const want = "mcpscope units --unit g prints the drop-in, for another place of units"
	if got := remedy.Of(d.withPlace(fmt.Errorf("open: %w", unix.EROFS))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := remedy.Of(d.withPlace(os.ErrPermission)); got != "" {
		t.Errorf("%q for another error", got)
	}
}

// A process that is older than the drop-in does not run by it.
func TestStartedBefore(t *testing.T) {
	_, path := installedGateway(t)
	s := serviceOf("/opt/mcpscope", "gateway", "--", "/bin/g")
	s.DropIns = []string{path}
	for started, want := range map[time.Duration]bool{-time.Hour: true, time.Hour: false} {
		s.Process = systemd.MainProcess{PID: 1, Started: time.Now().Add(started)}
		if got := startedBefore(s); got != want {
			t.Errorf("%v: %v", started, got)
		}
	}
	s.Process = systemd.MainProcess{}
	if startedBefore(s) {
		t.Error("it does not run")
	}
}

// A job is not started by an installation: systemctl would wait for its end.
func TestRemainingSteps(t *testing.T) {
	systemctl := systemctl()
	for kind, want := range map[string]string{
		"notify":  systemctl + " daemon-reload && " + systemctl + " try-restart g",
		"oneshot": systemctl + " daemon-reload",
	} {
		d := DropIn{Gateway: Gateway{Name: ServiceName{Entered: "g", Full: "g.service"}}}
		d.Gateway.service.Settings.Type = kind
		if got := ShellLine(d.RemainingSteps()); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// The log of the servers is found by the identifier that the drop-in sets, unless the output is elsewhere.
func TestLogCommand(t *testing.T) {
	s := serviceOf("/bin/g")
	s.Settings.Outputs = []string{"journal", "inherit"}
	if got, want := logCommand(s, "my gw"), journalctl()+" -t 'my gw'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.Settings.Outputs = []string{"append", "inherit"}
	if got := logCommand(s, "g"); got != "" {
		t.Errorf("%s", got)
	}
}

// A removal must be finished if the manager has the drop-in still.
func TestRemovalIsPending(t *testing.T) {
	below := serviceOf("/opt/mcpscope", "gateway", "--", "/bin/g")
	read := below
	read.DropIns = []string{"/etc/systemd/system/g.service.d/zz-mcpscope.conf"}
	outdated := serviceOf("/bin/g")
	outdated.Outdated = true
	for name, c := range map[string]struct {
		service systemd.Service
		want    bool
	}{
		"removed": {serviceOf("/bin/g"), false}, "to be read": {outdated, true}, "in force": {read, true}, "of the unit's own": {below, false},
	} {
		if got := (DropInRemoval{service: c.service}).IsPending(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The drop-in of the unit is removed, and those for its other names.
func TestDropInsToRemove(t *testing.T) {
	const (
		own   = "g.service.d/zz-mcpscope.conf"
		alias = "alias.service.d/zz-mcpscope.conf"
		later = "g.service.d/zzz.conf"
	)
	for name, c := range map[string]struct{ present, want []string }{
		"none":     {nil, []string{own}},
		"one":      {[]string{own, later}, []string{own}},
		"by alias": {[]string{alias}, []string{alias}},
		"both":     {[]string{own, alias}, []string{own, alias}},
	} {
		dir := t.TempDir()
		var s systemd.Service
		for _, present := range c.present {
			if _, err := (File{Name: present, Text: "[Service]\n"}).Install(dir); err != nil {
				t.Fatal(err)
			}
			s.DropIns = append(s.DropIns, filepath.Join(dir, present))
		}
		var got []string
		for _, file := range dropInsToRemove("g.service", dir, s) {
			got = append(got, file.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
