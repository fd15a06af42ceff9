// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// A service that knows nothing of mcpscope becomes a gateway by one command and a restart, with the very command that
// its unit has, and is what it was when the drop-in is removed.
func TestInstalledDropIn(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		h := host.Current(t)
		dir, in, out, stderr := pipes(t, u)
		unit, file := "plain-gateway.service", u.Units()+"/plain-gateway.service"
		host.Must(t, h.Command(u, "mkdir", "-p", u.Units()))
		// words that a unit file spells otherwise than they are
		text := fmt.Sprintf("[Service]\nType=notify\nNotifyAccess=all\nEnvironment=\"WORDS=one two\"\nExecStart=/bin/sh -c 'printf \"%%%%s\\\\n\" \"$@\" >%[1]s/words; exec %[2]s/like gateway run <%[1]s/in >%[1]s/out 2>>%[1]s/stderr' sh $WORDS ${WORDS} \"a b\" 'q\"q' 100%%%% \";\" \"\"\n",
			dir, host.Shared)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		systemctl := func(args ...string) string { return strings.TrimSpace(host.Must(t, h.Manage(u, "systemctl", args...))) }
		mcpscope := host.Shared + "/mcpscope"
		t.Cleanup(func() {
			_ = h.Manage(u, "systemctl", "stop", unit).Run() // it may have failed to start
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
			systemctl("daemon-reload")
		})
		words := func() string {
			text, err := os.ReadFile(dir + "/words")
			if err = errors.Join(err, os.Remove(dir+"/words")); err != nil {
				t.Error(err)
			}
			return string(text)
		}
		systemctl("daemon-reload")
		systemctl("start", unit)
		bare := words()
		g := gateway.Attach(t, in, out, stderr)
		said := host.Must(t, h.Command(u, mcpscope, "units", "gateway", "--unit", unit, "--install"))
		if !strings.HasPrefix(said, "installed "+file+".d/mcpscope.conf\n") || !strings.Contains(said, "daemon-reload && systemctl") || !strings.Contains(said, "restart "+unit) {
			t.Errorf("it says %q", said)
		}
		systemctl("daemon-reload")
		systemctl("restart", unit)
		if got := words(); got != bare {
			t.Errorf("its words are %q, bare %q", got, bare)
		}
		g.Up()
		m := g.Server(programs, "seen", "setsid")
		isListed := func() bool { // it is captured when it reads its first message
			return strings.Contains(host.Must(t, h.Command(u, mcpscope, "ls", "--format", "{{.Client.PID}} {{.Unit}}")), fmt.Sprintf("%d mcp-", g.PID))
		}
		if !gateway.Eventually(isListed) {
			t.Error("ls does not show it")
		}
		for property, want := range map[string]string{"KillMode": "mixed", "SyslogIdentifier": "sh", "NeedDaemonReload": "no"} {
			if got := systemctl("show", "--value", "--property="+property, unit); got != want {
				t.Errorf("%s=%s, want %s", property, got, want)
			}
		}
		if said := host.Must(t, h.Command(u, mcpscope, "units", "gateway", "--unit", unit, "--install")); said != "unchanged "+file+".d/mcpscope.conf\n" {
			t.Errorf("the second time it says %q", said)
		}
		systemctl("stop", unit)
		m.Gone(t)

		host.Must(t, h.Command(u, mcpscope, "units", "gateway", "--unit", unit, "--remove"))
		systemctl("daemon-reload")
		systemctl("start", unit)
		if got := words(); got != bare {
			t.Errorf("its words are %q after all, bare %q", got, bare)
		}
		if left, err := os.ReadDir(file + ".d"); err == nil {
			t.Errorf("left: %v", left)
		}
	})
}
