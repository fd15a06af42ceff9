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

	"golang.org/x/sys/unix"

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

// An installation that changes how other processes of the unit end has a note, once.
func TestKillModeNote(t *testing.T) {
	const changed = "KillMode control-group → mixed: " +
		"when the gateway has exited, its other processes get SIGKILL"
	for line, want := range map[string][]string{
		"": {changed}, "KillMode=\n": {changed}, "KillMode=control-group\n": {changed}, "KillMode=mixed\n": nil,
		"KillMode=process\n": nil,
	} {
		d := dropInOfService(t, "ExecStart=/bin/g\n"+line)
		if got := d.Notes(Installed); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if got := d.Notes(Unchanged); len(got) > 0 {
			t.Errorf("%q: %q for the second installation", line, got)
		}
	}
}

// A setting of the drop-in that another one replaces has a note, also when nothing has changed.
func TestOverriddenNote(t *testing.T) {
	d := dropInOfService(t, "ExecStart=/bin/g\n")
	later := unitFile{"/etc/systemd/system/g.service.d/zzz.conf", "[Service]\nKillMode=control-group\n"}
	d.Gateway.service.Files = append(d.Gateway.service.Files, later)
	want := []string{later.Path + " sets KillMode= and sorts after zz-mcpscope.conf: KillMode=mixed does not apply"}
	for _, result := range []Result{Installed, Unchanged} {
		if got := d.Notes(result); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", result, got, want)
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
