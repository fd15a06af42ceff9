// SPDX-License-Identifier: Apache-2.0

package units

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// A drop-in of a former version is replaced, under the name that sorts last. One that was changed stops the
// installation before anything is written, and a foreign file with that name stays.
func TestFormerDropIn(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		status int
		want   []string
	}{
		"ours":      {sealed("[Service]\n"), cli.ExitOK, []string{"zz-mcpscope.conf"}},
		"changed":   {sealed("[Service]\n") + "KillMode=none\n", cli.ExitFailure, []string{"mcpscope.conf"}},
		"another's": {"[Service]\n", cli.ExitOK, []string{"mcpscope.conf", "zz-mcpscope.conf"}},
	} {
		dir := t.TempDir()
		dropIns := filepath.Join(dir, "g.service.d")
		if err := os.Mkdir(dropIns, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dropIns, "mcpscope.conf"), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errors bytes.Buffer
		f := &Request{Install: true, Gateway: true, Unit: "g"}
		status := f.installDropIn(serviceOf(), gatewayOf(both), dir, cli.Stdio{Out: &out, Err: &errors})
		entries, err := os.ReadDir(dropIns)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if status != c.status || !slices.Equal(names, c.want) {
			t.Errorf("%s: status %d, files %q, %s%s", name, status, names, &out, &errors)
		}
		if said := "removed " + dropIns + "/mcpscope.conf\n"; strings.Contains(out.String(), said) != (name == "ours") {
			t.Errorf("%s: it prints %s", name, &out)
		}
	}
}

// A file that was changed stays, and the commands that replace it are in the hint.
func TestHintForAChangedFile(t *testing.T) {
	for _, name := range []string{"zz-mcpscope.conf", "mcpscope.conf"} {
		dir := t.TempDir()
		file := File{Name: "g.service.d/" + name}
		if _, err := file.Install(dir); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, file.Name)
		if err := os.WriteFile(target, []byte(sealed("[Service]\n")+"Nice=5\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		systemctl := systemctlStep().String()
		want := "mcpscope: hint: rm " + target + " && " + systemctl + " daemon-reload && " +
			systemctl + " try-restart g; put changes into: " + systemctl + " edit g\n"
		for verb, run := range map[string]func(*Request, cli.Stdio) int{
			"install": func(f *Request, io cli.Stdio) int {
				return f.installDropIn(serviceOf(), gatewayOf(both), dir, io)
			},
			"remove": func(f *Request, io cli.Stdio) int {
				return f.each([]File{file}, dir, io, "remove", File.Remove, nil)
			},
		} {
			var out, errors bytes.Buffer
			status := run(&Request{Gateway: true, Unit: "g"}, cli.Stdio{Out: &out, Err: &errors})
			if status != cli.ExitFailure || !strings.HasSuffix(errors.String(), want) {
				t.Errorf("%s %s: status %d, %s, want %s", verb, name, status, &errors, want)
			}
		}
	}
	metrics := File{Name: "mcpscope-metrics.service"}
	hint := metrics.hintForChanged(ErrChanged, "/d")
	if !strings.Contains(hint, "try-restart mcpscope-metrics;") {
		t.Errorf("it is %s", hint)
	}
}

// An installation that changes how other processes of the unit end says so, once.
func TestKillModeNote(t *testing.T) {
	const changed = "mcpscope: note: KillMode control-group → mixed: " +
		"when the gateway has exited, its other processes get SIGKILL\n"
	for line, want := range map[string]string{
		"": changed, "KillMode=\n": changed, "KillMode=control-group\n": changed, "KillMode=mixed\n": "",
		"KillMode=process\n": "",
	} {
		dir := t.TempDir()
		s := serviceOf(fragment("ExecStart=/bin/g\n" + line))
		file, err := dropIn(s, both)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{want, ""} {
			var out, errors bytes.Buffer
			f := &Request{Install: true, Gateway: true, Unit: "g"}
			status := f.installDropIn(s, file, dir, cli.Stdio{Out: &out, Err: &errors})
			if status != cli.ExitOK || errors.String() != want {
				t.Errorf("%q: status %d, %s, want %s", line, status, &errors, want)
			}
		}
	}
}

// The printed line can be pasted into a shell; the same commands run without one.
func TestJoinSteps(t *testing.T) {
	unit := `dev-a\x2db.service`
	stop := step{argv: []string{"systemctl", "stop", unit}, mayFail: true}
	restart := step{argv: []string{"systemctl", "restart", unit}}
	want := `systemctl stop dev-a\\x2db.service; systemctl restart dev-a\\x2db.service && systemctl restart dev-a\\x2db.service`
	if got := joinSteps([]step{stop, restart, restart}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := restart.String(); got != "systemctl restart "+unit {
		t.Errorf("it prints %s", got)
	}
}
