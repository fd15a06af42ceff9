// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/units"
	"github.com/mcpscope/mcpscope/test/bed"
)

// TestMain is the process of a user whose files cannot be searched.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[2] == "--own" {
		fmt.Fprintln(os.Stderr, "no files today")
		os.Exit(1)
	}
	bed.Beside(m.Run)
}

// A report has a line for each use, and then each command, once for neighbors that have the same.
func TestLines(t *testing.T) {
	report := Report{Uses: []Use{{"/a: x", "unwrap"}, {"/b: x", "unwrap"}, {"/c: a reason", ""}, {"/d: x", "unwrap"}, {"/e: y", "editor /e"}}}
	want := []string{"/a: x", "/b: x", "/c: a reason", "/d: x", "/e: y", "  first: unwrap", "  first: editor /e"}
	if got := report.Lines(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Report{}).Lines(); len(got) > 0 {
		t.Errorf("nothing was found: %q", got)
	}
}

// Root takes the uses from the report of a user's process, and no command that it contains.
func TestUsesOf(t *testing.T) {
	for name, c := range map[string]struct {
		report []Use
		want   []Use
	}{
		"nothing": {nil, nil},
		"wrapped files": {
			[]Use{{"/home/ann/a: 1 wrapped server", "mcpscope unwrap"}, {"/home/ann/b: 1 wrapped server", "mcpscope unwrap"}},
			[]Use{{"/home/ann/a: 1 wrapped server", "sudo -H -u ann mcpscope unwrap"}, {"/home/ann/b: 1 wrapped server", "sudo -H -u ann mcpscope unwrap"}},
		},
		"a unit": {
			[]Use{{"/home/ann/u: a unit", "rm -rf /"}},
			[]Use{{"/home/ann/u: a unit", "sudo -H -u ann mcpscope removal"}},
		},
		"a file that cannot be read": {
			[]Use{{"/home/ann/a: restore its backup", ""}},
			[]Use{{"/home/ann/a: restore its backup", ""}},
		},
	} {
		text := strings.Join(Report{Uses: c.report}.Lines(), "\n")
		if got := usesOf(text+"\n", "sudo -H -u ann "); len(c.report) > 0 && !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := usesOf("", ""); len(got) > 0 {
		t.Errorf("of an empty report: %q", got)
	}
}

// A package must not be removed if the files of one user could not be searched.
func TestAnUnsearchedUserIsAnError(t *testing.T) {
	home := t.TempDir()
	link := filepath.Join(t.TempDir(), "ann") // to another disk
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{home, link} {
		ann := fmt.Sprintf("ann:x:%d:%d:Ann:%s:/bin/sh\n", os.Getuid(), os.Getgid(), home)
		s := search{}
		err := s.addUsers(accountsIn("nobody:x:9:9::/nonexistent:/bin/sh\n" + ann + ann))
		if err == nil || err.Error() != "files of ann: exit status 1: no files today" || len(s.uses) > 0 {
			t.Errorf("home %s: error %v, %q", home, err, s.uses)
		}
	}
}

// Lines that are not as in passwd(5) are skipped. The last line may have no end.
func TestAccountsIn(t *testing.T) {
	const passwd = "root:x:0:0::/root:/bin/sh\n\n+::::::\n# x\nann:x:-1:7::/home/ann:/bin/sh\n" +
		"ann:x:7:x::/home/ann:/bin/sh\nben:x:7:8:Ben:/home/ben:"
	want := []account{{"root", 0, 0, "/root"}, {"ben", 7, 8, "/home/ben"}}
	if got := accountsIn(passwd); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Homes of users that are in no file are searched.
func TestAccountsOfHomes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give a directory away")
	}
	dir := t.TempDir()
	for path, uid := range map[string]int{"ann": 1234, "domain": 0, "domain/ben": 1235, "domain/of": 0, "domain/of/cy": 1236} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, path), uid, 77); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "domain/of/cy"), filepath.Join(dir, "cy")); err != nil {
		t.Fatal(err)
	}
	want := []account{{"ann", 1234, 77, dir + "/ann"}, {"cy", 1236, 77, dir + "/cy"}, {"ben", 1235, 77, dir + "/domain/ben"}}
	if got := accountsOfHomes(dir, true); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The command for a drop-in also takes its running gateway off mcpscope.
func TestRemedyForADropIn(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/g.service.d", 0o700); err != nil {
		t.Fatal(err)
	}
	text := "[Service]\nExecStart=\nExecStart=mcpscope gateway -- /bin/g\n" + units.Written + "\n"
	file := dir + "/g.service.d/zz-mcpscope.conf"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := search{}
	s.addUnits(dir, "sudo ")
	want := []Use{{
		file + ": a drop-in that starts the service under mcpscope",
		"sudo mcpscope units --unit g.service --remove --now",
	}}
	if !slices.Equal(s.uses, want) {
		t.Errorf("%q, want %q", s.uses, want)
	}
	if !hasUnit(s.uses, "g.service") || hasUnit(s.uses, "h.service") {
		t.Errorf("the unit of %q", s.uses)
	}
}

// A unit whose failure systemd ignores works without mcpscope.
func TestUnitsThatStartIt(t *testing.T) {
	dir := t.TempDir()
	for name, line := range map[string]string{
		"a.service": "ExecStart=mcpscope run -- x", "b.service": "ExecStopPost=-mcpscope sweep",
		"c.service": "ExecStart = +:mcpscope gateway -- x", "d.service": "ExecStart=/bin/x mcpscope",
		"e.service": "ExecStart=/bin/sh -c 'exec mcpscope gateway -- x'", "mcpscope-metrics.service": "ExecStart=mcpscope metrics",
	} {
		if err := os.WriteFile(dir+"/"+name, []byte("[Service]\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := search{}
	s.addUnits(dir, "")
	var want []Use
	for _, name := range []string{"/a.service", "/c.service", "/e.service"} {
		want = append(want, Use{dir + name + ": a unit that starts mcpscope", "editor " + dir + name})
	}
	if !slices.Equal(s.uses, want) {
		t.Errorf("%q, want %q", s.uses, want)
	}
}

// One command undoes mcpscope units, and disables units of a package.
func TestOwnUnits(t *testing.T) {
	dir, ofPackage := t.TempDir(), t.TempDir()
	wants := dir + "/timers.target.wants"
	sweep := dir + "/mcpscope-sweep.service"
	link := wants + "/mcpscope-metrics.service"
	elsewhere := wants + "/mcpscope-sweep.timer"
	err := errors.Join(
		os.WriteFile(sweep, []byte("[Service]\nExecStart=mcpscope sweep\n"+units.Written+"\n"), 0o600),
		os.WriteFile(ofPackage+"/mcpscope-metrics.service", []byte("[Service]\nExecStart=mcpscope metrics\n"), 0o600),
		os.Mkdir(wants, 0o700),
		os.Symlink(ofPackage+"/mcpscope-metrics.service", link),
		os.Symlink("/nonexistent/mcpscope-sweep.timer", elsewhere),
	)
	if err != nil {
		t.Fatal(err)
	}
	s := search{}
	s.addUnits(dir, "")
	s.addEnabled(dir)
	want := []Use{
		{sweep + ": a unit that mcpscope units has installed", removeUnits},
		{link + ": an enabled unit of mcpscope", removeUnits},
	}
	if !slices.Equal(s.uses, want) {
		t.Errorf("%q, want %q", s.uses, want)
	}
}

// The unit of a service is shown by its manager. A login session or another scope starts nothing, so there the agent
// has to be ended.
func TestUnitStep(t *testing.T) {
	const ofUser = "/user.slice/user-76543.slice/user@76543.service/"
	for _, c := range []struct {
		path       string
		uid        int
		unit, step string
	}{
		{"/system.slice/g.service/group", 0, "g.service", "sudo systemctl cat g.service"},
		{"/system.slice/g.service", 76543, "g.service", "systemctl cat g.service"},
		{ofUser + "app.slice/g.service", 76543, "g.service", "systemctl --user cat g.service"},
		{ofUser + "app.slice/g.service", 0, "g.service", "sudo systemctl --user --machine=76543@.host cat g.service"},
		{"/user.slice/user-76543.slice/session-c33.scope", 0, "session-c33.scope", ""},
		{ofUser + "app.slice/vte-spawn-1.scope", 0, "vte-spawn-1.scope", ""},
		{ofUser + "app.slice/mcpscope-agent-x.scope/agent", 76543, "mcpscope-agent-x.scope", ""},
		{"/docker/1", 0, "", ""},
		{"", 0, "", ""},
	} {
		unit, step := unitStep(c.path, c.uid)
		if unit != c.unit || step != c.step {
			t.Errorf("%s for %d: %q, %q; want %q, %q", c.path, c.uid, unit, step, c.unit, c.step)
		}
	}
}

// Without the right to see the program of a process, its command and PATH show which mcpscope it is.
func TestWouldRun(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ours", "other", "none"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ours", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name, "mcpscope"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := search{runner: filepath.Join(dir, "ours", "mcpscope")}
	for _, c := range []struct {
		command, first string
		want           bool
	}{
		{s.runner, "other", true},
		{filepath.Join(dir, "other", "mcpscope"), "ours", false},
		{"mcpscope", "ours", true},
		{"mcpscope", "other", false},
		{"mcpscope", "none", true}, // it may be
		{"something", "none", false},
	} {
		env := []string{"HOME=/", "PATH=" + filepath.Join(dir, c.first)}
		if got := s.wouldRun(c.command, env); got != c.want {
			t.Errorf("%s with %s first: %v", c.command, c.first, got)
		}
	}
}

// Of a gateway that has ended its daemons are listed: its own pid may be another process.
func TestLivingOfAGateway(t *testing.T) {
	own, err := group.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const noProcess = 1<<22 + 1 // above any pid
	ended := own
	ended.Start++
	starters := []gw.Starter{{Process: ended, IsDaemon: true}, {Process: own}, {Process: own, IsDaemon: true}}
	for _, c := range []struct {
		pid  int
		want []int
	}{{os.Getppid(), []int{os.Getppid()}}, {noProcess, []int{own.PID}}} {
		g := gw.Running{PID: c.pid, Notices: gw.Notices{Starters: starters}}
		if got := livingOf(&g); !slices.Equal(got, c.want) {
			t.Errorf("of %d: %v, want %v", c.pid, got, c.want)
		}
	}
}
