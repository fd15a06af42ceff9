// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// serviceOf is a service with one command.
func serviceOf(argv ...string) systemd.Service {
	command := systemd.Command{Program: argv[0], Argv: argv}
	return systemd.Service{Unit: systemd.Unit{Name: "g.service"}, Commands: []systemd.Command{command}}
}

// dropInFor is the text of the drop-in of a service.
func dropInFor(t *testing.T, s systemd.Service, flags ...string) string {
	t.Helper()
	o, err := readOverride(s)
	if err != nil {
		t.Fatal(err)
	}
	g := Gateway{Name: ServiceName{Entered: "g", Full: "g.service"}, service: s, override: o}
	return g.DropIn(both, GatewayFlags{Words: flags}).File.Text
}

func TestDropInText(t *testing.T) {
	const want = `# A drop-in for the unit of a gateway or agent: each MCP server that it starts is in a group of its own.
# A unit file that its program writes anew, as Hermes does, keeps it. The command is that of the unit when this was
# written. When the unit has changed, install this again (mcpscope units --unit UNIT --install --now).
# Files of the unit: crc 00000000
[Service]
ExecStart=
ExecStart=-/opt/mcpscope gateway "--match=sh -c *" -- /usr/bin/node g.js --listen $ADDRESS "a  b" ""
# journalctl -t finds the output of the gateway and of its servers by this name.
SyslogIdentifier=g
# After each stop or crash, stop servers whose guards died, too.
ExecStopPost=-/opt/mcpscope sweep --unit=%n
`
	s := serviceOf("/usr/bin/node", "g.js", "--listen", "$ADDRESS", "a  b", "")
	s.Commands[0].Flags = []string{"ignore-failure"}
	if got := dropInFor(t, s, "--match=sh -c *"); got != want {
		t.Errorf("%s", got)
	}
}

// The words of a manager are spelled so that systemd reads the same ones: specifiers, quotes and control characters
// are escaped. Variables stay, but in a program's path, which is an argument of ours.
func TestDropInCommand(t *testing.T) {
	for _, c := range []struct {
		argv  []string
		flags []string
		want  string
	}{
		{[]string{"/bin/g", "100%", `a\b`, `"q'`, "x\ty\n", ";", "é"}, nil, `/opt/mcpscope gateway -- /bin/g 100%% "a\\b" "\"q'" "x\ty\n" ";" "é"`},
		{[]string{"/opt/$x/g", "$A", "$$B", "${C}"}, nil, `/opt/mcpscope gateway -- /opt/$$x/g $A $$B "${C}"`},
		{[]string{"/opt/$x/g", "$A"}, []string{"no-env-expand"}, `:/opt/mcpscope gateway -- /opt/$x/g $A`},
		{[]string{"/bin/g"}, []string{"privileged", "ignore-failure"}, `+-/opt/mcpscope gateway -- /bin/g`},
		{[]string{"/bin/g"}, []string{"ambient"}, `!!/opt/mcpscope gateway -- /bin/g`},
		{[]string{"/opt/a b/g"}, nil, `/opt/mcpscope gateway -- "/opt/a b/g"`},
	} {
		s := serviceOf(c.argv...)
		s.Commands[0].Flags = c.flags
		text := dropInFor(t, s)
		if !strings.Contains(text, "\nExecStart="+c.want+"\n") {
			t.Errorf("%q: no %s in %s", c.argv, c.want, text)
		}
		o, ok := parseOverride(text)
		if again := o.file("g.service", both).Text; !ok || again != text {
			t.Errorf("%q is read as %+v, which is %s", c.argv, o, again)
		}
	}
}

func TestServicesThatAreRefused(t *testing.T) {
	needed := []string{"pidfd_getfd", "pidfd_open", "process_vm_readv", "seccomp", "read", "memfd_create", "tee"}
	for want, change := range map[string]func(*systemd.Service){
		"g.service is Type=forking":                                 func(s *systemd.Service) { s.Settings.Type = "forking" },
		"g.service starts 2 commands":                               func(s *systemd.Service) { s.Commands = append(s.Commands, s.Commands[0]) },
		"g.service starts 0 commands":                               func(s *systemd.Service) { s.Commands = nil },
		"(prefix @)":                                                func(s *systemd.Service) { s.Commands[0].Argv = []string{"other", "/bin/g"} },
		"a prefix for via-shell":                                    func(s *systemd.Service) { s.Commands[0].Flags = []string{"via-shell"} },
		"is mcpscope gateway already":                               func(s *systemd.Service) { s.Commands = serviceOf("/opt/mcpscope", "gateway", "--", "/bin/g").Commands },
		"LimitAS= of g.service is 1000 MB, and mcpscope needs 1 GB": func(s *systemd.Service) { s.Settings.AddressMost = 1000 << 20 },
		"add SystemCallFilter=memfd_create pidfd_getfd seccomp tee": func(s *systemd.Service) {
			s.Settings.Calls = systemd.CallFilter{AllowsOnly: true, Names: needed[1:3]}
		},
		"add SystemCallFilter=pidfd_getfd": func(s *systemd.Service) {
			s.Settings.Calls = systemd.CallFilter{Names: []string{"pidfd_getfd:1", "ptrace"}}
		},
	} {
		s := serviceOf("/bin/g")
		change(&s)
		if _, err := readOverride(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, filter := range []systemd.CallFilter{{}, {AllowsOnly: true, Names: needed}, {Names: []string{"ptrace"}}} {
		s := serviceOf("/bin/g")
		s.Settings.Calls = filter
		if _, err := readOverride(s); err != nil {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}

// A user of a system service makes groups in the unit's own control group. Root and a user's manager need none.
func TestDropInDelegates(t *testing.T) {
	isSystem := systemd.Own() == systemd.System
	for name, c := range map[string]struct {
		settings systemd.Settings
		flag     string
		want     bool
	}{
		"root":              {systemd.Settings{}, "--replace=true", false},
		"root by name":      {systemd.Settings{User: "root"}, "--replace=true", false},
		"root by number":    {systemd.Settings{User: "0"}, "--replace=true", false},
		"user":              {systemd.Settings{User: "gw"}, "--replace=true", isSystem},
		"dynamic user":      {systemd.Settings{DynamicUser: true}, "--replace=true", isSystem},
		"delegated already": {systemd.Settings{User: "gw", Delegated: true}, "--replace=true", false},
		"by a flag":         {systemd.Settings{}, "--backend=delegated", true},
		"by a limit":        {systemd.Settings{OnGroup: []string{"MemoryMax"}}, "--replace=true", true},
	} {
		s := serviceOf("/bin/g")
		s.Settings = c.settings
		text := dropInFor(t, s, c.flag)
		if strings.Contains(text, "\nDelegate=yes\n") != c.want {
			t.Errorf("%s: %s", name, text)
		}
		// Installed again, it is the same: then the manager has it delegated by the drop-in.
		o, _ := parseOverride(text)
		s.Settings.Delegated = s.Settings.Delegated || c.want
		again := Gateway{service: s, override: o}.DropIn(both, GatewayFlags{Words: []string{c.flag}})
		if again.File.Text != text {
			t.Errorf("%s: again it is %s", name, again.File.Text)
		}
	}
}

// The gateway gets SIGTERM before its servers, if they are in its unit. A unit whose processes are to outlive a stop stays so.
func TestDropInKillMode(t *testing.T) {
	for mode, want := range map[string]bool{"control-group": true, "mixed": true, "process": false, "none": false} {
		s := serviceOf("/bin/g")
		s.Settings.KillMode = mode
		if text := dropInFor(t, s); strings.Contains(text, "\nKillMode=") {
			t.Errorf("%s, servers in scopes: %s", mode, text)
		}
		if text := dropInFor(t, s, "--backend=delegated"); strings.Contains(text, "\nKillMode=mixed\n") != want {
			t.Errorf("%s, servers in the unit: %s", mode, text)
		}
	}
}

// The flag that keeps servers below the group of the unit is in the file, and the note names its reason.
func TestServersStayBelowTheGroup(t *testing.T) {
	s := serviceOf("/bin/g")
	s.Settings.OnGroup = []string{"IPAddressDeny", "MemoryMax"}
	g := Gateway{service: s, override: override{Command: []string{"/bin/g"}}}
	d := g.DropIn(both, GatewayFlags{Words: []string{"--replace=true"}})
	const note = "--backend=delegated: servers get groups below that of the unit, on which its IPAddressDeny=, MemoryMax= act"
	if d.GroupNote != note || !strings.Contains(d.File.Text, " gateway --backend=delegated --replace=true -- /bin/g\n") {
		t.Errorf("%+v", d)
	}
	chosen := g.DropIn(both, GatewayFlags{Words: []string{"--backend=systemd-system"}})
	if !strings.Contains(chosen.GroupNote, "will not act on its servers") || strings.Contains(chosen.File.Text, "delegated") {
		t.Errorf("%+v", chosen)
	}
}

// The checksum is of the command in the files that apply before our drop-in.
func TestSourceOfAService(t *testing.T) {
	dir := t.TempDir()
	s := serviceOf("/bin/g")
	s.Fragment = filepath.Join(dir, "g.service")
	s.DropIns = []string{filepath.Join(dir, "override.conf"), filepath.Join(dir, dropInName), filepath.Join(dir, "zzz.conf")}
	write := func(file, text string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return sourceOf(s)
	}
	write(s.Fragment, "[Service]\n")
	before := write(s.DropIns[0], "[Service]\nNice=5\nExecStart=/bin/g \\\n  --a\nRestart=no\n")
	for _, file := range s.DropIns[1:] {
		if after := write(file, "ExecStart=anything"); after != before {
			t.Errorf("with %s: %s, before %s", file, after, before)
		}
	}
	if after := write(s.DropIns[0], "[Service]\nExecStart=/bin/g \\\n  --a\nRestart=always\n"); after != before {
		t.Errorf("with another Restart= it is %s, before %s", after, before)
	}
	if after := write(s.DropIns[0], "[Service]\nExecStart=/bin/g \\\n  --b\nRestart=no\n"); after == before {
		t.Errorf("with another command it is %s, too", after)
	}
	if err := os.Remove(s.DropIns[0]); err != nil {
		t.Fatal(err)
	}
	if after := sourceOf(s); after == before {
		t.Errorf("without the file it is %s, too", after)
	}
}

// A drop-in without our spelling is not read.
func TestParseOverride(t *testing.T) {
	for _, value := range []string{"", "/bin/g", "/opt/mcpscope run -- /bin/g", "/opt/mcpscope gateway /bin/g", `/opt/mcpscope gateway "-- /bin/g`} {
		if o, ok := parseOverride("[Service]\nExecStart=\nExecStart=" + value + "\n"); ok {
			t.Errorf("%q: %+v", value, o)
		}
	}
	o, ok := parseOverride("[Service]\nExecStart=\nExecStart=-\"/opt/a b/mcpscope\" gateway -- /bin/g\n")
	if !ok || o.Prefix != "-" || !slices.Equal(o.Command, []string{"/bin/g"}) {
		t.Errorf("%+v, %v", o, ok)
	}
}
