// SPDX-License-Identifier: Apache-2.0

package units

import (
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
		{[]unitFile{fragment("ExecStart = -:\"/usr/bin/g\" \\\n  run\n")}, "\nExecStart=-:/opt/mcpscope gateway -- \"/usr/bin/g\" run\n", ""},
		{[]unitFile{fragment("ExecStart=gw --listen 127.0.0.1 \\\n  # --allow-all \\\n  --port 8000\n")}, " gateway -- gw --listen 127.0.0.1 --port 8000\n", ""},
		{[]unitFile{fragment("ExecStart=gw  a\t'b  c'  \\\n  d\"e  \\\"f\"  \\x20  g\n")}, " gateway -- gw a 'b  c' d\"e  \\\"f\" \\x20 g\n", ""},
		{[]unitFile{fragment("ExecStart=/opt/$x/gw $A $$B\n")}, " gateway -- /opt/$$x/gw $A $$B\n", ""},
		{[]unitFile{fragment("ExecStart=:/opt/$x/gw $A\n")}, "=:/opt/mcpscope gateway -- /opt/$x/gw $A\n", ""},
		{[]unitFile{fragment("ExecStart=\"/opt/a b/python\" -m x\n")}, "\nSyslogIdentifier=g\n", ""},
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
