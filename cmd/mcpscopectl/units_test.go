// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
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
)

// withoutManager skips a test that needs a host without a manager. test/systemd has the tests with one.
func withoutManager(t *testing.T) {
	t.Helper()
	if systemd.Present(systemd.Own()) == nil {
		t.Skip("this host has a manager")
	}
}

// callUnits returns what a call of mcpscope units prints.
func callUnits(u unitsCall, do func(*unitsCall) int) said {
	var out, err bytes.Buffer
	u.stdio = cli.Stdio{Out: &out, Err: &err}
	status := do(&u)
	return said{status, out.String(), err.String()}
}

// systemctl is how a step of this user begins.
func systemctl() string { return strings.TrimSuffix(units.ReloadStep().Command, "daemon-reload") }

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
		own := units.OwnUnits{Dir: dir, Files: units.OwnFiles(systemd.Own(), units.InstalledPrograms())}
		return callUnits(u, func(u *unitsCall) int {
			if u.install {
				return u.installOwn(own)
			}
			return u.removeOwn(own)
		})
	}
	install := unitsCall{install: true}
	remove := unitsCall{remove: true}
	reload := systemctl() + "daemon-reload"
	enable := "now: " + reload + " && " + systemctl() + "enable --now mcpscope-sweep.timer\n"
	wantSaid(t, "nothing to remove", call(remove), said{out: results("absent")})
	wantSaid(t, "install", call(install), said{out: results("installed") + enable})
	wantSaid(t, "install again", call(install), said{out: results("unchanged")})
	wantSaid(t, "remove", call(remove), said{out: results("removed") + "now: " + reload + "\n"})
	wantSaid(t, "remove again", call(remove), said{out: results("absent")})
}

// A step that fails is named.
func TestAStepThatFails(t *testing.T) {
	withoutManager(t)
	s := callUnits(unitsCall{now: true}, func(u *unitsCall) int { return u.takeSteps(units.EnableSteps()...) })
	want := "mcpscope: cannot " + systemctl() + "daemon-reload: connect to the "
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, want) {
		t.Errorf("%+v, want %s", s, want)
	}
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

// The call of a user who may not change a unit is repeated with sudo, as it was.
func TestACallWithSudo(t *testing.T) {
	for want, u := range map[string]unitsCall{
		"sudo mcpscope units --unit g":                                           {unit: "g"},
		"sudo mcpscope units --unit 'a\\b' --remove --now":                       {unit: `a\b`, remove: true, now: true},
		"sudo mcpscope units --unit g --install --match='npx *' --memory-max=1G": {unit: "g", install: true, gatewayFlags: []string{"--match=npx *", "--memory-max=1G"}},
	} {
		if got := u.withSudo(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// An installation succeeds only if servers can be contained.
func TestContainmentAfterAnInstallation(t *testing.T) {
	const reason = "user gw may\nmake no cgroup"
	for _, c := range []struct {
		state containment.State
		want  said
	}{
		{containment.Contained, said{}},
		{containment.Weaker, said{cli.ExitOK, "", "mcpscope: note: the servers of g are contained without cgroups, which is weaker: user gw may, make no cgroup\nmcpscope: hint: add Delegate=yes\n"}},
		{containment.Uncontained, said{cli.ExitFailure, "", "mcpscope: the servers of g are NOT contained: user gw may, make no cgroup\nmcpscope: hint: add Delegate=yes\n"}},
		{containment.Undecided, said{cli.ExitFailure, "", "mcpscope: cannot see whether the servers of g are contained: user gw may, make no cgroup\nmcpscope: hint: add Delegate=yes\n"}},
	} {
		found := units.Containment{State: c.state, Reason: reason, Remedy: "add Delegate=yes"}
		got := callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int { return u.ofGateway("").printContainment(found) })
		wantSaid(t, string(c.state), got, c.want)
	}
}

// The facts about a drop-in: flags that are kept, or that it has no more, are named.
func TestFactsAboutADropIn(t *testing.T) {
	entered := units.GatewayFlags{Words: []string{"--replace=true"}}
	kept := units.GatewayFlags{Words: []string{"--replace=true"}, Kept: true}
	for want, d := range map[string]units.DropIn{
		"":                        {},
		"flags: --replace=true\n": {Flags: entered},
		"kept: --replace=true\n":  {Flags: kept},
		"flags: --replace=true\ndropped: --match='a b'\n": {Flags: entered, Dropped: []string{"--match=a b"}},
	} {
		d.GroupNote = "a note about the group"
		d.LogCommand = "journalctl -t g"
		got := callUnits(unitsCall{unit: "g"}, func(u *unitsCall) int {
			u.ofGateway("").printAbout(d)
			return cli.ExitOK
		})
		wantSaid(t, want, got, said{out: want + "a note about the group\nlog: journalctl -t g\n"})
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
