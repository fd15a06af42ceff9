// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// serviceOf is a service whose files are a unit file and drop-ins, by their paths.
func serviceOf(files ...unitFile) service {
	return service{Service: systemd.Service{Name: "g.service"}, Manager: systemd.System, Files: files}
}

func fragment(lines string) unitFile {
	return unitFile{"/etc/systemd/system/g.service", "[Service]\n" + lines}
}

// A drop-in keeps the command as the unit has it. Other units are refused.
func TestDropIn(t *testing.T) {
	const ownText = "[Service]\nExecStart=\nExecStart=/old/mcpscope gateway -- /bin/g\nSyslogIdentifier=g\n" + Written
	own := unitFile{"/etc/systemd/system/g.service.d/zz-mcpscope.conf", ownText}
	former := unitFile{"/etc/systemd/system/g.service.d/mcpscope.conf", ownText}
	override := unitFile{"/etc/systemd/system/g.service.d/override.conf", "[Service]\nExecStart=\nExecStart=/bin/c\n"}
	last := unitFile{"/run/systemd/system/g.service.d/zzz.conf", "[Service]\nExecStart=\nExecStart=/bin/c\n"}
	other := unitFile{"/run/systemd/system/g.service.d/x.conf", "[Service]\nExecStart=\nExecStart=/bin/b\n"}
	for _, c := range []struct {
		files     []unitFile
		want, err string
	}{
		{[]unitFile{fragment("ExecStart=/bin/g run $OPTS \"a b\" %h\n")}, "\nExecStart=/opt/mcpscope gateway -- /bin/g run $OPTS \"a b\" %h\n", ""},
		{[]unitFile{fragment("ExecStart=/bin/g\n"), own}, "\nSyslogIdentifier=g\n", ""},
		{[]unitFile{fragment("ExecStart=/bin/g\n"), former, override}, " gateway -- /bin/c\n", ""},
		{[]unitFile{fragment("ExecStart=/bin/g\n"), last}, "", "zzz.conf sets ExecStart= and sorts after zz-mcpscope.conf"},
		{[]unitFile{fragment("ExecStart = -:\"/usr/bin/g\" \\\n  run\n")}, "\nExecStart=-:/opt/mcpscope gateway -- \"/usr/bin/g\"    run\n", ""},
		{[]unitFile{fragment("ExecStart=gw --listen 127.0.0.1 \\\n  # --allow-all \\\n  --port 8000\n")}, " gateway -- gw --listen 127.0.0.1    --port 8000\n", ""},
		{[]unitFile{fragment("ExecStart=/opt/$x/gw $A $$B\n")}, " gateway -- /opt/$$x/gw $A $$B\n", ""},
		{[]unitFile{fragment("ExecStart=:/opt/$x/gw $A\n")}, "=:/opt/mcpscope gateway -- /opt/$x/gw $A\n", ""},
		{[]unitFile{fragment("ExecStart=\"/opt/a b/python\" -m x\n")}, "\nSyslogIdentifier=python\n", ""},
		{[]unitFile{fragment("ExecStart=/bin/g\nSyslogIdentifier=gw-%i\n")}, "\nSyslogIdentifier=gw-%i\n", ""},
		{[]unitFile{fragment("ExecStart=/bin/a\n"), other}, " gateway -- /bin/b\n", ""},
		{[]unitFile{fragment("ExecStart=/bin/a\nExecStart=/bin/b\n")}, "", "starts 2 commands"},
		{[]unitFile{fragment("ExecStop=/bin/a\n")}, "", "starts 0 commands"},
		{[]unitFile{fragment("ExecStart=@/bin/g -g\n")}, "", `the prefix "@"`},
		{[]unitFile{fragment("ExecStart=/usr/bin/mcpscope gateway -- /bin/g\n")}, "", "is mcpscope gateway already"},
	} {
		f, err := dropIn(serviceOf(c.files...), both)
		if c.err == "" && (err != nil || !strings.Contains(f.Text, c.want)) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %s, %v; want %q, %q", c.files, f.Text, err, c.want, c.err)
		}
	}
}

// A user of a system service makes groups in the unit's own control group. Root and a user's manager need
// none.
func TestDropInDelegates(t *testing.T) {
	for name, c := range map[string]struct {
		manager systemd.Kind
		service systemd.Service
		lines   string
		want    bool
	}{
		"root":              {systemd.System, systemd.Service{}, "", false},
		"root by name":      {systemd.System, systemd.Service{User: "root"}, "", false},
		"root by number":    {systemd.System, systemd.Service{User: "0"}, "", false},
		"user":              {systemd.System, systemd.Service{User: "gw"}, "", true},
		"dynamic user":      {systemd.System, systemd.Service{DynamicUser: true}, "", true},
		"user's manager":    {systemd.User, systemd.Service{}, "", false},
		"delegated already": {systemd.System, systemd.Service{User: "gw"}, "Delegate=memory pids\n", false},
		"delegated no more": {systemd.System, systemd.Service{User: "gw"}, "Delegate=yes\nDelegate=no\n", true},
	} {
		s := service{Service: c.service, Manager: c.manager, Files: []unitFile{fragment("ExecStart=/bin/g\n" + c.lines)}}
		s.Name = "g.service"
		f, err := dropIn(s, both)
		if err != nil || strings.Contains(f.Text, "\nDelegate=yes\n") != c.want {
			t.Errorf("%s: %s, %v", name, f.Text, err)
		}
	}
}

// mcpscope ends servers with the process that it has executed, so that must not be one that exits at once.
func TestDropInRefusesForking(t *testing.T) {
	s := serviceOf(fragment("Type=forking\nExecStart=/bin/g\n"))
	s.Type = "forking"
	if _, err := dropIn(s, both); err == nil || !strings.Contains(err.Error(), "g.service is Type=forking") {
		t.Errorf("error %v", err)
	}
}

// A filter of system calls that would kill the gateway or its watcher is named, with the line that is
// missing.
func TestDropInCallFilter(t *testing.T) {
	needed := []string{"pidfd_getfd", "pidfd_open", "process_vm_readv", "seccomp", "read", "memfd_create", "tee"}
	for _, c := range []struct {
		filter systemd.CallFilter
		want   string
	}{
		{systemd.CallFilter{}, ""},
		{systemd.CallFilter{AllowsOnly: true, Names: needed}, ""},
		{systemd.CallFilter{AllowsOnly: true, Names: needed[1:3]}, "add SystemCallFilter=memfd_create pidfd_getfd seccomp tee"},
		{systemd.CallFilter{Names: []string{"pidfd_getfd:1", "ptrace"}}, "add SystemCallFilter=pidfd_getfd"},
		{systemd.CallFilter{Names: []string{"ptrace"}}, ""},
	} {
		s := serviceOf(fragment("ExecStart=/bin/g\n"))
		s.Calls = c.filter
		_, err := dropIn(s, both)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.filter, err, c.want)
		}
	}
}

// A unit whose processes are to outlive a stop stays so.
func TestDropInKillMode(t *testing.T) {
	for lines, want := range map[string]bool{
		"": true, "KillMode=control-group\n": true, "KillMode=mixed\n": true, "KillMode=process\nKillMode=\n": true,
		"KillMode=process\n": false, "KillMode=none\n": false, "KillMode=mixed\nKillMode=process\n": false,
	} {
		f, err := dropIn(serviceOf(fragment("ExecStart=/bin/g\n"+lines)), both)
		if err != nil || strings.Contains(f.Text, "\nKillMode=mixed\n") != want {
			t.Errorf("%q: %s, %v", lines, f.Text, err)
		}
	}
}

// A remedy names what the service lacks.
func TestWhyUncontained(t *testing.T) {
	reason, remedy := whyUncontained(serviceOf())
	if reason != "its manager starts it without mcpscope" || remedy != "mcpscope units --unit g.service --install --now" {
		t.Errorf("a bare service: %q, %q", reason, remedy)
	}
	for _, c := range []struct {
		service    systemd.Service
		want, hint string
	}{
		{systemd.Service{Name: "g.service", User: "gw"}, "user gw may make no cgroup here", "loginctl enable-linger gw"},
		{systemd.Service{Name: "g.service", ReadOnly: true}, "its control groups are read-only (ProtectControlGroups=yes)", "add ProtectControlGroups=no"},
		{systemd.Service{Name: "g.service", User: "g", DynamicUser: true}, "user g may make no cgroup here", "add Delegate=yes"},
	} {
		c.service.Commands = [][]string{{"/opt/mcpscope", "gateway", "--", "/bin/g"}}
		reason, remedy := whyUncontained(service{Service: c.service, Manager: systemd.System})
		if reason != c.want || !strings.Contains(remedy, c.hint) || c.service.DynamicUser && strings.Contains(remedy, "linger") {
			t.Errorf("%+v: %q, %q", c.service, reason, remedy)
		}
	}
}

// Flags are words before the command, whatever is in them.
func TestDropInFlags(t *testing.T) {
	flags := []string{"--match=sh -c *", `--except=50% "$X" \`, "--memory-max=1G"}
	for prefix, want := range map[string]string{
		"":  `/opt/mcpscope gateway "--match=sh -c *" "--except=50%% \"$$X\" \\" "--memory-max=1G" -- /bin/g`,
		":": `:/opt/mcpscope gateway "--match=sh -c *" "--except=50%% \"$X\" \\" "--memory-max=1G" -- /bin/g`,
	} {
		f, err := dropIn(serviceOf(fragment("ExecStart="+prefix+"/bin/g\n")), both, flags...)
		if err != nil || !strings.Contains(f.Text, "\nExecStart="+want+"\n") {
			t.Errorf("%q: %s, %v", prefix, f.Text, err)
		}
	}
}

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
		kept, about, err := (&Request{}).flagsFor(s)
		if err != nil || !slices.Equal(kept, flags) || !strings.HasSuffix(about[0], printed) {
			t.Errorf("%q: kept %q, %q, %v", prefix, kept, about, err)
		}
		replaced, about, err := (&Request{GatewayFlags: flags[3:4]}).flagsFor(s)
		if err != nil || !slices.Equal(replaced, flags[3:4]) || about[0] != "flags: --idle-freeze 2s" {
			t.Errorf("%q: replaced by %q, %q, %v", prefix, replaced, about, err)
		}
		s.Files[1].Text = strings.Replace(s.Files[1].Text, "--replace", "--idle", 1)
		if kept, _, err := (&Request{}).flagsFor(s); err != nil || len(kept) > 0 {
			t.Errorf("%q: %q are kept of an edited file, %v", prefix, kept, err)
		}
	}
	if kept := serviceOf(fragment("ExecStart=/bin/g\n")).keptFlags(); len(kept) > 0 {
		t.Errorf("without a drop-in: %q", kept)
	}
}

// A command that was changed since the installation is found, wherever it is. Other changes do not count.
func TestCommandHasChanged(t *testing.T) {
	before := fragment("ExecStart=-/bin/g \\\n run $X\n")
	f, err := dropIn(serviceOf(before), both, "--replace=true")
	if err != nil {
		t.Fatal(err)
	}
	ours := unitFile{"/etc/systemd/system/" + f.Name, sealed(f.Text)}
	const other = "[Service]\nExecStart=\nExecStart=/bin/c\n"
	override := unitFile{"/etc/systemd/system/g.service.d/override.conf", other}
	for name, c := range map[string]struct {
		files []unitFile
		want  bool
	}{
		"same":             {[]unitFile{before, ours}, false},
		"other settings":   {[]unitFile{fragment("ExecStart=-/bin/g \\\n run $X\nNice=5\n"), ours}, false},
		"other words":      {[]unitFile{fragment("ExecStart=-/bin/g run $X --port 1\n"), ours}, true},
		"other prefix":     {[]unitFile{fragment("ExecStart=/bin/g \\\n run $X\n"), ours}, true},
		"edited":           {[]unitFile{before, override, ours}, true},
		"several commands": {[]unitFile{fragment("ExecStart=/bin/g\nExecStart=/bin/h\n"), ours}, true},
		"no drop-in":       {[]unitFile{before, override}, false},
	} {
		if got := serviceOf(c.files...).commandHasChanged(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The log of the servers is found by the identifier that the drop-in sets.
func TestLogLine(t *testing.T) {
	for lines, want := range map[string]string{
		"ExecStart=-/usr/bin/g run\n":                   "log: journalctl -t g",
		"ExecStart=\"/opt/a b\"\n":                      "log: journalctl -t 'a b'",
		"ExecStart=/bin/g\nSyslogIdentifier=my-gw\n":    "log: journalctl -t my-gw",
		"ExecStart=/bin/g\nSyslogIdentifier=my-gw-%i\n": "",
	} {
		s := serviceOf(fragment(lines))
		file, err := dropIn(s, both)
		if got := s.logLine(file); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", lines, got, err, want)
		}
	}
}

// A misspelled name gets the command that lists the names.
func TestExplainNoService(t *testing.T) {
	err := fmt.Errorf("read g.service: %w", systemd.ErrNoService)
	list := systemctlStep().String() + " list-units --type=service"
	want := "there is no g.service (" + list + " lists the services)"
	if got := explainNoService(err, "g.service"); got == nil || got.Error() != want {
		t.Errorf("%v, want %s", got, want)
	}
	if got := explainNoService(os.ErrPermission, "g.service"); got != os.ErrPermission {
		t.Errorf("%v", got)
	}
}

// A drop-in that was removed is no error: the manager has yet to read that.
func TestRemovedDropIn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "g.service")
	if err := os.WriteFile(file, []byte("[Service]\nExecStart=/bin/g\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serviceOf()
	s.Fragment = file
	s.DropIns = []string{filepath.Join(dir, "g.service.d", "zz-mcpscope.conf")}
	loaded, err := loadFiles(s)
	if err != nil || !loaded.Outdated || len(loaded.Files) != 1 {
		t.Errorf("%+v, %v", loaded, err)
	}
}

// A removal must be finished if the manager has the drop-in still.
func TestRemovalIsPending(t *testing.T) {
	below := [][]string{{"/opt/mcpscope", "gateway", "--", "/bin/g"}}
	bare := [][]string{{"/bin/g"}}
	dropIns := []string{"/etc/systemd/system/g.service.d/zz-mcpscope.conf"}
	for name, c := range map[string]struct {
		service systemd.Service
		want    bool
	}{
		"removed":           {systemd.Service{Commands: bare}, false},
		"to be read":        {systemd.Service{Commands: bare, Outdated: true}, true},
		"in force":          {systemd.Service{Commands: below, DropIns: dropIns}, true},
		"of the unit's own": {systemd.Service{Commands: below}, false},
	} {
		if got := removalIsPending(service{Service: c.service}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

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

// systemctl show prints the command of each service.
func TestGatewaysIn(t *testing.T) {
	const text = `Id=a.service
ExecStart={ path=/usr/bin/mcpscope ; argv[]=/usr/bin/mcpscope gateway -- /bin/a ; ignore_errors=no ; start_time=[n/a] }

ExecStart={ path=/bin/b ; argv[]=/bin/b gateway -- mcpscope ; ignore_errors=no }
Id=b.service

Id=c.service

ExecStart={ path=/opt/mcpscope ; argv[]=mcpscope gateway x ; ignore_errors=yes }
Id=d.service
`
	if got, want := gatewaysIn(text), []string{"a.service", "d.service"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
