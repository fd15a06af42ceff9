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

// The manager decides whether a drop-in is in force, and whether it has the words of the command.
func TestCheckInForce(t *testing.T) {
	bare := [][]string{{"/bin/g", "a b", "$X"}}
	below := func(words ...string) [][]string {
		return [][]string{append([]string{"/opt/mcpscope", "gateway", "--"}, words...)}
	}
	for name, c := range map[string]struct {
		before, after [][]string
		want          string
	}{
		"in force":             {bare, below("/bin/g", "a b", "$X"), ""},
		"with flags":           {bare, [][]string{{"/opt/mcpscope", "gateway", "--match=x", "--", "/bin/g", "a b", "$X"}}, ""},
		"installed again":      {below("/bin/old"), below("/bin/g"), ""},
		"another drop-in wins": {bare, bare, `systemd starts [["/bin/g" "a b" "$X"]] instead`},
		"a second command":     {bare, append(below("/bin/g"), bare...), "instead"},
		"other words":          {bare, below("/bin/g", "a", "b", "$X"), `systemd reads the words ["/bin/g" "a" "b" "$X"]`},
	} {
		before, after := serviceOf(), serviceOf()
		before.Commands, after.Commands = c.before, c.after
		err := checkInForce(before, after)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// dropInOfService is the drop-in of a service whose files have these lines.
func dropInOfService(t *testing.T, lines string) DropIn {
	t.Helper()
	g := Gateway{Name: ServiceName{Entered: "g", Full: "g.service"}, service: serviceOf(fragment(lines))}
	d, err := g.DropIn(both, GatewayFlags{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A drop-in of a former version is removed, and the new one has the name that sorts last. One that was changed
// stops the installation, and a foreign file with that name stays.
func TestFormerDropIn(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		isOurs  bool
		changed bool
	}{
		"ours":      {text: sealed("[Service]\n"), isOurs: true},
		"changed":   {text: sealed("[Service]\n") + "KillMode=none\n", isOurs: true, changed: true},
		"another's": {text: "[Service]\n"},
	} {
		dir := t.TempDir()
		d := dropInOfService(t, "ExecStart=/bin/g\n")
		former := d.FormerPath(dir)
		if want := filepath.Join(dir, "g.service.d", "mcpscope.conf"); former != want {
			t.Fatalf("it is %s, want %s", former, want)
		}
		if err := os.Mkdir(filepath.Dir(former), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(former, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := d.CheckFormer(dir)
		if errors.Is(err, ErrChanged) != c.changed || !c.changed && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.changed {
			continue
		}
		want := Absent
		if c.isOurs {
			want = Removed
		}
		if got, err := d.RemoveFormer(dir); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
		if _, err := os.Stat(former); (err == nil) == c.isOurs {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The administrator of a host whose units are in a store gets the text of the drop-in.
func TestReadOnlyUnits(t *testing.T) {
	d := dropInOfService(t, "ExecStart=/bin/g\n")
	const want = "mcpscope units --unit g prints the drop-in, for another place of units"
	if got := remedy.Of(d.withPlace(fmt.Errorf("open: %w", unix.EROFS))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := remedy.Of(d.withPlace(os.ErrPermission)); got != "" {
		t.Errorf("%q for another error", got)
	}
}

// An installation that changes how other processes of the unit end, or that leaves some, has a note, once.
func TestKillModeNote(t *testing.T) {
	const changed = "KillMode control-group → mixed: when the gateway has exited, its other processes get SIGKILL; " +
		"a drop-in with a later name, such as zzz.conf, with KillMode=control-group has them get SIGTERM first"
	const leaves = " is kept: a stop leaves processes of the unit alive, and among them a server that its gateway " +
		"has written nothing to; with --match GLOB or --config FILE a server is contained from its start"
	for line, want := range map[string][]string{
		"": {changed}, "KillMode=\n": {changed}, "KillMode=control-group\n": {changed}, "KillMode=mixed\n": nil,
		"KillMode=process\n": {"KillMode=process" + leaves}, "KillMode=none\n": {"KillMode=none" + leaves},
	} {
		d := dropInOfService(t, "ExecStart=/bin/g\n"+line)
		if got := d.Notes(Installed); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if got := d.Notes(Unchanged); len(got) > 0 {
			t.Errorf("%q: %q for the second installation", line, got)
		}
	}
	d := dropInOfService(t, "ExecStart=/bin/g\nKillMode=process\n")
	for _, flag := range []string{"--match=my *", "--config=/etc/g.json"} {
		d.Flags.Words = []string{flag}
		if got := d.Notes(Installed); len(got) > 0 {
			t.Errorf("%s: %q", flag, got)
		}
	}
}

// A setting of the drop-in that another one replaces has a note, also when nothing has changed. A
// KillMode= that an administrator keeps is nothing to repair.
func TestOverriddenNote(t *testing.T) {
	const path = "/etc/systemd/system/g.service.d/zzz.conf"
	for line, want := range map[string][]string{
		"SyslogIdentifier=x": {path + " sets SyslogIdentifier= and sorts after zz-mcpscope.conf: SyslogIdentifier=g does not apply"},
		"KillMode=control-group": {"KillMode=control-group of " + path + " is kept: at a stop the gateway and the other " +
			"processes of its unit get SIGTERM together"},
		"KillMode=": {"KillMode=control-group of " + path + " is kept: at a stop the gateway and the other " +
			"processes of its unit get SIGTERM together"},
		"KillMode=mixed": nil,
	} {
		d := dropInOfService(t, "ExecStart=/bin/g\n")
		d.Gateway.service.Files = append(d.Gateway.service.Files, unitFile{path, "[Service]\n" + line + "\n"})
		for _, result := range []Result{Installed, Unchanged} {
			got := slices.DeleteFunc(d.Notes(result), func(note string) bool { return strings.HasPrefix(note, "KillMode control-group →") })
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", line, result, got, want)
			}
		}
	}
}

// Steps remain until the service runs by the drop-in, however often that is installed.
func TestIsPending(t *testing.T) {
	below := [][]string{{"/opt/mcpscope", "gateway", "--", "/bin/g"}}
	dir := t.TempDir()
	d := dropInOfService(t, "ExecStart=/bin/g\n")
	if _, err := d.Install(dir); err != nil {
		t.Fatal(err)
	}
	file := []string{d.File.Path(dir)}
	hour := time.Hour
	for name, c := range map[string]struct {
		service systemd.Service
		want    bool
	}{
		"not read":               {systemd.Service{Commands: [][]string{{"/bin/g"}}}, true},
		"stopped":                {systemd.Service{Commands: below, DropIns: file}, false},
		"older than the drop-in": {systemd.Service{Commands: below, DropIns: file, MainPID: 1, Started: time.Now().Add(-hour)}, true},
		"not contained":          {systemd.Service{Commands: below, DropIns: file, MainPID: os.Getpid(), Group: "/nowhere", Started: time.Now().Add(hour)}, true},
		"a job that runs":        {systemd.Service{Commands: below, DropIns: file, MainPID: 1, Type: "oneshot"}, false},
	} {
		d.Gateway.service.Service = c.service
		if got := d.IsPending(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A job is not started by an installation: systemctl would wait for its end.
func TestRemainingSteps(t *testing.T) {
	systemctl := systemctlStep().String()
	for kind, want := range map[string]string{
		"notify":  systemctl + " daemon-reload && " + systemctl + " try-restart g",
		"oneshot": systemctl + " daemon-reload",
	} {
		d := dropInOfService(t, "ExecStart=/bin/g\n")
		d.Gateway.service.Type = kind
		if got := ShellLine(d.RemainingSteps()); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
