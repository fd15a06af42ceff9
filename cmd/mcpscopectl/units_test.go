// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/units"
	"github.com/mcpscope/mcpscope/test/unprivileged"
)

// withoutManager skips a test that needs a host without a manager. test/systemd has the tests with one.
func withoutManager(t *testing.T) {
	t.Helper()
	if systemd.Present(systemd.Own()) == nil {
		t.Skip("this host has a manager")
	}
}

// withoutSystemctl has each step fail that calls systemctl.
func withoutSystemctl(t *testing.T) { t.Helper(); t.Setenv("PATH", t.TempDir()) }

// callUnits returns what a call of mcpscope units prints.
func callUnits(u unitsCall, do func(*unitsCall) int) said {
	var out, err bytes.Buffer
	u.stdio = cli.Stdio{Out: &out, Err: &err}
	status := do(&u)
	return said{status, out.String(), err.String()}
}

// systemctl is how a step of this user begins.
func systemctl() string { return strings.TrimSuffix(units.ReloadStep().String(), "daemon-reload") }

func wantSaid(t *testing.T, what string, got, want said) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%+v\nwant\n%+v", what, got, want)
	}
}

// Units that name a program in its source code start only while that is there.
func TestUnitsNoteAProgramThatIsNotInstalled(t *testing.T) {
	own, err := programs.Own()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Dir(own)
	module := filepath.Join(source, "go.mod")
	note := func(u unitsCall) said {
		return printed(func(stdio cli.Stdio) int {
			u.stdio = stdio
			u.noteProgram()
			return cli.ExitOK
		})
	}
	if got := note(unitsCall{}); got != (said{}) {
		t.Errorf("not in the source code: %+v", got)
	}
	if err := os.WriteFile(module, []byte("module github.com/mcpscope/mcpscope\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(module)
	runner := filepath.Join(source, programs.Runner)
	want := "mcpscope: note: " + runner + " is not installed: the units start only as long as " + source + " is there\n" +
		"mcpscope: hint: sudo make -C " + source + " install, then /usr/local/bin/mcpscope units --install --unit g.service\n"
	if got := note(unitsCall{isGateway: true, unit: "g.service"}); got != (said{err: want}) {
		t.Errorf("%+v, want %q", got, want)
	}
}

// Without a running manager nothing is written, and the reason is a sentence.
func TestUnitsWithoutSystemd(t *testing.T) {
	withoutManager(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	for _, args := range []string{"--install", "--install --now", "--remove --now", "--unit g --install"} {
		s := say(append([]string{"units"}, strings.Fields(args)...)...)
		if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot reach systemd: ") {
			t.Errorf("%s: %+v", args, s)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	s := say("units", "--unit", "g")
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot run g below mcpscope: ") {
		t.Errorf("the command of a gateway: %+v", s)
	}
}

func TestUnitsArePrinted(t *testing.T) {
	t.Setenv("HOME", "/nonexistent")
	s := say("units")
	for _, want := range []string{"/mcpscope-sweep.timer\n", "[Timer]", "ExecStart=" + units.InstalledPrograms().Mcpscope + " sweep"} {
		if s.status != cli.ExitOK || s.err != "" || !strings.Contains(s.out, want) {
			t.Errorf("no %q in %+v", want, s)
		}
	}
}

// A mistake in the flags has a status of its own. An unusable name of a unit is a failure.
func TestMistakesInUnits(t *testing.T) {
	t.Setenv("HOME", "/nonexistent")
	const help = "\nmcpscope: hint: mcpscope help units\n"
	for args, c := range map[string]struct {
		status int
		want   string
	}{
		"--now":                       {cli.ExitUsage, "units: --now is for --install and --remove" + help},
		"--install --remove":          {cli.ExitUsage, "units: --install and --remove exclude each other" + help},
		"--unit=":                     {cli.ExitUsage, "units: --unit needs the name of a service" + help},
		"--unit x --check":            {cli.ExitUsage, "units: unknown flag \"--check\"" + help},
		"x":                           {cli.ExitUsage, "units: unexpected argument \"x\"" + help},
		"--match x":                   {cli.ExitUsage, "units: flags of mcpscope gateway are for --unit UNIT, and not for --remove" + help},
		"--unit x --remove --match x": {cli.ExitUsage, "units: flags of mcpscope gateway are for --unit UNIT, and not for --remove" + help},
		"--unit x --memory-max few":   {cli.ExitUsage, "units: --memory-max \"few\": "},
		"--unit ../x":                 {cli.ExitFailure, "cannot run ../x below mcpscope: \"../x\" is not the name of a service\n"},
		"--unit ../x --remove":        {cli.ExitFailure, "cannot remove the drop-in of ../x: \"../x\" is not the name of a service\n"},
		"--unit x.timer":              {cli.ExitFailure, "cannot run x.timer below mcpscope: \"x.timer\" is no service, and a gateway is one\n"},
		"--unit x@":                   {cli.ExitFailure, "cannot run x@ below mcpscope: x@.service is a template: name an instance, such as x@1\n"},
	} {
		s := say(append([]string{"units"}, strings.Fields(args)...)...)
		if s.status != c.status || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: "+c.want) {
			t.Errorf("%s: %+v", args, s)
		}
	}
}

// Without --now, the steps are printed that put the files in force.
func TestUnitsAreInstalledAndRemoved(t *testing.T) {
	dir := t.TempDir()
	results := func(result string) string {
		text := ""
		for _, name := range []string{"mcpscope-metrics.service", "mcpscope-sweep.service", "mcpscope-sweep.timer"} {
			text += result + " " + filepath.Join(dir, name) + "\n"
		}
		return text
	}
	call := func(u unitsCall) said {
		return callUnits(u, func(u *unitsCall) int { return u.ownFiles(dir) })
	}
	install := unitsCall{install: true}
	remove := unitsCall{remove: true}
	reload := systemctl() + "daemon-reload"
	enable := "now: " + reload + " && " + systemctl() + "enable --now mcpscope-sweep.timer\n"
	stop := "now: " + systemctl() + "stop mcpscope-metrics.service mcpscope-sweep.service mcpscope-sweep.timer; " + reload + "\n"
	wantSaid(t, "nothing to remove", call(remove), said{out: results("absent")})
	wantSaid(t, "install", call(install), said{out: results("installed") + enable})
	wantSaid(t, "install again", call(install), said{out: results("unchanged")})
	wantSaid(t, "remove", call(remove), said{out: results("removed") + stop})
	wantSaid(t, "remove again", call(remove), said{out: results("absent")})
}

// The units of a package are enabled. Copies of them would outlive the package.
func TestPackagedUnitsAreEnabled(t *testing.T) {
	dir, ofPackage := t.TempDir(), t.TempDir()
	files := []units.File{{Name: "mcpscope-sweep.timer", Text: "[Timer]\n"}}
	if err := os.WriteFile(files[0].Path(ofPackage), []byte("[Timer]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := callUnits(unitsCall{install: true}, func(u *unitsCall) int {
		return u.installOwn(files, dir, []string{ofPackage})
	})
	wantSaid(t, "install", got, said{
		out: "packaged " + files[0].Name + "\n" +
			"now: " + systemctl() + "daemon-reload && " + systemctl() + "enable --now mcpscope-sweep.timer\n",
		err: "mcpscope: note: a unit that is packaged is used as it is: there is no copy of it in " + dir + "\n",
	})
}

// A file that a person has edited stays, and the others are changed all the same.
func TestEditedUnits(t *testing.T) {
	dir := t.TempDir()
	edited := filepath.Join(dir, "mcpscope-sweep.service")
	if err := os.WriteFile(edited, []byte("[Service]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for verb, u := range map[string]unitsCall{"install": {install: true}, "remove": {remove: true}} {
		s := callUnits(u, func(u *unitsCall) int { return u.ownFiles(dir) })
		want := "mcpscope: cannot " + verb + " " + edited + ": it was changed, or is not a file of mcpscope\n" +
			"mcpscope: hint: rm " + edited + " && " + systemctl() + "daemon-reload && " + systemctl() + "try-restart mcpscope-sweep; " +
			"put changes into: " + systemctl() + "edit mcpscope-sweep\n"
		if s.status != cli.ExitFailure || s.err != want || strings.Count(s.out, "\n") < 2 {
			t.Errorf("%s: %+v, want %s", verb, s, want)
		}
	}
}

// A step that fails is named. The files of units that could not be stopped stay.
func TestUnitsWithoutSystemctl(t *testing.T) {
	withoutSystemctl(t)
	dir := t.TempDir()
	const missing = ": exec: \"systemctl\": executable file not found in $PATH\n"
	call := func(u unitsCall) said {
		return callUnits(u, func(u *unitsCall) int { return u.ownFiles(dir) })
	}
	s := call(unitsCall{install: true, now: true})
	if want := "mcpscope: cannot " + systemctl() + "daemon-reload" + missing; s.status != cli.ExitFailure || s.err != want || strings.Contains(s.out, "done") {
		t.Errorf("install: %+v, want %s", s, want)
	}
	// They are in force only after these steps.
	if s := call(unitsCall{install: true, now: true}); s.status != cli.ExitFailure || strings.Count(s.out, "unchanged ") != 3 {
		t.Errorf("install again: %+v", s)
	}
	s = call(unitsCall{remove: true, now: true})
	want := "mcpscope: cannot " + systemctl() + "stop mcpscope-metrics.service mcpscope-sweep.service mcpscope-sweep.timer" + missing
	wantSaid(t, "remove", s, said{status: cli.ExitFailure, err: want})
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("left: %v, %v", files, err)
	}
}

// The call of a user who may not change a unit is repeated with sudo, as it was.
func TestACallWithSudo(t *testing.T) {
	for want, u := range map[string]unitsCall{
		"sudo mcpscope units --unit g":                                           {unit: "g"},
		"sudo mcpscope units --unit 'a\\b' --remove --now":                       {unit: `a\b`, remove: true, now: true},
		"sudo mcpscope units --unit g --install --match 'npx *' --memory-max 1G": {unit: "g", install: true, gatewayFlags: []string{"--match=npx *", "--memory-max=1G"}},
	} {
		if got := u.withSudo(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// gatewayDropIn is a drop-in as it is for a service without anything unusual.
func gatewayDropIn() units.DropIn {
	return units.DropIn{
		Gateway: units.Gateway{Name: units.ServiceName{Entered: "g", Full: "g.service"}},
		File:    units.File{Name: "g.service.d/zz-mcpscope.conf", Text: "[Service]\n"},
	}
}

// The facts about a drop-in follow its result, and the steps come last.
func TestADropInIsInstalled(t *testing.T) {
	dir := t.TempDir()
	d := gatewayDropIn()
	path := d.File.Path(dir)
	former := d.FormerPath(dir)
	call := func() said {
		return callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int { return u.ofGateway(dir).installDropIn(d) })
	}
	steps := "now: " + systemctl() + "daemon-reload && " + systemctl() + "try-restart g\n"
	wantSaid(t, "plain", call(), said{out: "installed " + path + "\n" + steps})
	wantSaid(t, "again, and not restarted", call(), said{out: "unchanged " + path + "\n" + steps})

	d.Flags.Words = []string{"--replace=true"}
	d.GroupNote = "a note about the group"
	d.LogCommand = "journalctl -t g"
	wantSaid(t, "flags", call(), said{out: "unchanged " + path + "\nflags: --replace\na note about the group\nlog: journalctl -t g\n" + steps})
	d.Flags.Kept = true
	wantSaid(t, "kept flags", call(), said{out: "unchanged " + path + "\nkept: --replace\na note about the group\nlog: journalctl -t g\n" + steps})

	d = gatewayDropIn()
	if _, err := (units.File{Name: "g.service.d/mcpscope.conf", Text: "[Service]\n"}).Install(dir); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, "with one of a former version", call(), said{out: "unchanged " + path + "\nremoved " + former + "\n" + steps})
}

// A change of KillMode= is a note.
func TestNotesOfADropIn(t *testing.T) {
	dir := t.TempDir()
	d := gatewayDropIn()
	d.File.Text += "# At a stop SIGTERM goes to the gateway alone: it can use its servers until it has drained.\n" +
		"# How long that may take is its unit's TimeoutStopSec=.\nKillMode=mixed\n"
	s := callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int { return u.ofGateway(dir).installDropIn(d) })
	const want = "mcpscope: note: KillMode control-group → mixed: " +
		"when the gateway has exited, its other processes get SIGKILL; "
	if s.status != cli.ExitOK || !strings.HasPrefix(s.err, want) {
		t.Errorf("%+v, want %s", s, want)
	}
	preview := callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int { return u.ofGateway(dir).previewDropIn(d) })
	wantSaid(t, "without --install", preview, said{out: "# " + d.File.Path(dir) + "\n" + d.File.Text + "\n", err: s.err})
}

// A drop-in that a person has edited stays, also one of a former version.
func TestAnEditedDropIn(t *testing.T) {
	for verb, name := range map[string]string{"install": "zz-mcpscope.conf", "replace": "mcpscope.conf"} {
		dir := t.TempDir()
		file := units.File{Name: "g.service.d/" + name, Text: "[Service]\n"}
		if _, err := file.Install(dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file.Path(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file.Path(dir), append(text, "Nice=5\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		s := callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int { return u.ofGateway(dir).installDropIn(gatewayDropIn()) })
		want := "mcpscope: cannot " + verb + " " + file.Path(dir) + ": it was changed, or is not a file of mcpscope\n" +
			"mcpscope: hint: rm " + file.Path(dir) + " && " + systemctl() + "daemon-reload && " + systemctl() + "try-restart g; " +
			"put changes into: " + systemctl() + "edit g\n"
		wantSaid(t, verb, s, said{status: cli.ExitFailure, err: want})
	}
}

// With --now, a manager that cannot be reached is a failure after the installation.
func TestADropInWithoutSystemctl(t *testing.T) {
	withoutSystemctl(t)
	dir := t.TempDir()
	d := gatewayDropIn()
	s := callUnits(unitsCall{unit: "g", now: true}, func(u *unitsCall) int { return u.ofGateway(dir).installDropIn(d) })
	wantSaid(t, "install", s, said{
		status: cli.ExitFailure,
		out:    "installed " + d.File.Path(dir) + "\n",
		err:    "mcpscope: cannot " + systemctl() + "daemon-reload: exec: \"systemctl\": executable file not found in $PATH\n",
	})
}

// A gateway that cannot be restarted keeps the drop-in, and the hint removes it.
func TestAGatewayThatIsNotRestarted(t *testing.T) {
	withoutSystemctl(t)
	s := callUnits(unitsCall{unit: "g", now: true}, func(u *unitsCall) int { return u.ofGateway("").restart(gatewayDropIn()) })
	wantSaid(t, "restart", s, said{
		status: cli.ExitFailure,
		err: "mcpscope: cannot " + systemctl() + "restart g: exec: \"systemctl\": executable file not found in $PATH\n" +
			"mcpscope: hint: the drop-in stays; to undo it: mcpscope units --unit g --remove --now\n",
	})
}

// A service whose command cannot be run below mcpscope is refused.
func TestAnUnusableGateway(t *testing.T) {
	u := unitsCall{unit: "g", install: true}
	const want = " starts 0 commands (ExecStart=); mcpscope needs one"
	if _, err := u.ofGateway("").dropInOf(units.Gateway{}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// An installation succeeds only if servers can be contained.
func TestContainmentAfterAnInstallation(t *testing.T) {
	const goal = "mcpscope: cannot see whether the servers of g are contained: "
	for _, c := range []struct {
		containment units.Containment
		err         error
		want        said
	}{
		{units.Containment{State: containment.Contained}, nil, said{}},
		{
			units.Containment{State: containment.Weaker, Reason: "user gw may\nmake no cgroup", Remedy: "add Delegate=yes"}, nil,
			said{cli.ExitOK, "", "mcpscope: note: the servers of g are contained without cgroups, which is weaker: user gw may, make no cgroup\nmcpscope: hint: add Delegate=yes\n"},
		},
		{
			units.Containment{State: containment.Uncontained, Reason: "user gw may\nmake no cgroup", Remedy: "add Delegate=yes"}, nil,
			said{cli.ExitFailure, "", "mcpscope: the servers of g are NOT contained: user gw may, make no cgroup\nmcpscope: hint: add Delegate=yes\n"},
		},
		{
			units.Containment{State: containment.Undecided, Reason: "it is activating", Remedy: "systemctl status g"}, nil,
			said{cli.ExitFailure, "", goal + "it is activating\nmcpscope: hint: systemctl status g\n"},
		},
		{
			units.Containment{}, remedy.With(errors.New("g.service does not run"), "systemctl status g"),
			said{cli.ExitFailure, "", goal + "g.service does not run\nmcpscope: hint: systemctl status g\n"},
		},
	} {
		got := callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int { return u.ofGateway("").printContainment(c.containment, c.err) })
		wantSaid(t, string(c.containment.State), got, c.want)
	}
}

// The last line of an installation has the servers. A gateway without one may start it later.
func TestServersAfterAnInstallation(t *testing.T) {
	for count, want := range map[int]string{
		0: "no server yet; the first one will be in " + listCommand(), 1: "1 server so far", 4: "4 servers so far",
	} {
		if got := serversText(count); got != want {
			t.Errorf("%d: %q, want %q", count, got, want)
		}
	}
}

// A former drop-in that cannot be removed would apply beside the new one.
func TestAFormerDropInThatStays(t *testing.T) {
	unprivileged.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		d := gatewayDropIn()
		for _, file := range []units.File{d.File, {Name: "g.service.d/mcpscope.conf"}} {
			if _, err := file.Install(dir); err != nil {
				t.Fatal(err)
			}
		}
		above := filepath.Dir(d.File.Path(dir))
		if err := os.Chmod(above, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(above, 0o700) }) // for the removal of the directory
		s := callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int { return u.ofGateway(dir).installDropIn(d) })
		want := failure("remove "+d.FormerPath(dir)+": permission denied", "")
		want.out = "unchanged " + d.File.Path(dir) + "\n"
		wantSaid(t, "install", s, want)
	})
}

// A former drop-in applies until the manager has read that it is removed.
func TestAFormerDropInWithoutSystemctl(t *testing.T) {
	withoutSystemctl(t)
	dir := t.TempDir()
	d := gatewayDropIn()
	if _, err := (units.File{Name: "g.service.d/mcpscope.conf"}).Install(dir); err != nil {
		t.Fatal(err)
	}
	var got error
	s := callUnits(unitsCall{unit: "g", now: true}, func(u *unitsCall) int {
		got = u.ofGateway(dir).replaceFormer(d)
		return cli.ExitOK
	})
	wantSaid(t, "replace", s, said{out: "removed " + d.FormerPath(dir) + "\n"})
	const missing = `exec: "systemctl": executable file not found in $PATH`
	if got == nil || got.Error() != missing {
		t.Errorf("%v, want %s", got, missing)
	}
}

// After the steps, units read from the manager how it starts the service. Where there is no such service, that is a failure.
func TestStepsWithoutEffect(t *testing.T) {
	dir := t.TempDir()
	d := gatewayDropIn()
	d.Gateway = units.Gateway{Name: units.ServiceName{Entered: "mcpscope-test-none", Full: "mcpscope-test-none.service"}}
	u := unitsCall{unit: "mcpscope-test-none", now: true}
	s := callUnits(u, func(u *unitsCall) int { return u.ofGateway(dir).finishInForce(d, units.Unchanged) })
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot put "+d.File.Path(dir)+" in force: ") {
		t.Errorf("install: %+v", s)
	}
	s = callUnits(u, func(u *unitsCall) int {
		return u.ofGateway("").finishRemoval(units.DropInRemoval{Name: d.Gateway.Name})
	})
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot take mcpscope-test-none out of mcpscope: ") {
		t.Errorf("remove: %+v", s)
	}
}

// Units name no program that is removed while they are there.
func TestUnitsOfAProgramThatDoesNotLast(t *testing.T) {
	const step = "install mcpscope permanently, then mcpscope units"
	err := checkTemporary("/tmp/mcpscope")
	if err == nil || err.Error() != "mcpscope is in a temporary directory: /tmp/mcpscope" || remedy.Of(err) != step {
		t.Errorf("%v, remedy %q", err, remedy.Of(err))
	}
	if err := checkTemporary("/usr/local/bin/mcpscope"); err != nil {
		t.Error(err)
	}
	cache := programs.CheckLasting("/home/a/.npm/_npx/1f/node_modules/mcpscope/bin/mcpscope")
	err = withCacheStep(cache)
	if err == nil || err.Error() != cache.Error() || !strings.HasSuffix(remedy.Of(err), ", then mcpscope units") {
		t.Errorf("%v, remedy %q", err, remedy.Of(err))
	}
	if err := withCacheStep(os.ErrNotExist); err != nil {
		t.Error(err)
	}
}

// Drop-ins are removed without a manager, and the steps that put that in force are printed.
func TestADropInIsRemoved(t *testing.T) {
	withoutManager(t)
	dir := t.TempDir()
	remove := func() said {
		return callUnits(unitsCall{unit: "g", remove: true}, func(u *unitsCall) int { return u.ofGateway(dir).run() })
	}
	d := gatewayDropIn()
	path := d.File.Path(dir)
	wantSaid(t, "none", remove(), said{out: "absent " + path + "\n"})
	for _, file := range []units.File{d.File, {Name: "g.service.d/mcpscope.conf"}} {
		if _, err := file.Install(dir); err != nil {
			t.Fatal(err)
		}
	}
	steps := "now: " + systemctl() + "daemon-reload && " + systemctl() + "try-restart g\n"
	wantSaid(t, "two", remove(), said{out: "removed " + path + "\nremoved " + d.FormerPath(dir) + "\n" + steps})
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("[Service]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := remove(); s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot remove "+path+": it was changed") {
		t.Errorf("an edited one: %+v", s)
	}
}
