// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A service that knows nothing of mcpscope becomes a gateway by one command and a restart, with the very command that
// its unit has, and is as before when the drop-in is removed.
func TestInstalledDropIn(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		h := host.Current(t)
		dir, in, out, stderr := pipes(t, u)
		unit := "plain-gateway.service"
		file := u.Units() + "/plain-gateway.service"
		host.Must(t, h.Command(u, "mkdir", "-p", u.Units()))
		const script = `printf "%%%%s\\n" "$@" >DIR/words; exec SHARED/like gateway run <DIR/in >DIR/out 2>>DIR/stderr`
		// words that a unit file spells otherwise than they are
		text := strings.NewReplacer("DIR", dir, "SHARED", host.Shared, "%%%%", "%%").Replace("[Service]\nType=notify\nNotifyAccess=all\n" +
			"Environment=\"WORDS=one two\"\nExecStart=/bin/sh -c '" + script + "' sh $WORDS ${WORDS} \"a b\" 'q\"q' 100%%%% \";\" \"\"\n")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		systemctl := func(args ...string) string { return strings.TrimSpace(host.Must(t, h.Manage(u, "systemctl", args...))) }
		t.Cleanup(func() {
			_ = h.Manage(u, "systemctl", "stop", unit).Run() // it may have failed to start
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
			systemctl("daemon-reload")
		})
		restarted := func() string {
			systemctl("daemon-reload")
			systemctl("restart", unit)
			words, err := os.ReadFile(dir + "/words")
			if err = errors.Join(err, os.Remove(dir+"/words")); err != nil {
				t.Error(err)
			}
			return string(words)
		}
		command := func(args ...string) string {
			return host.Must(t, h.Command(u, append([]string{host.Shared + "/mcpscope"}, args...)...))
		}
		show := func(property string) string {
			return systemctl("show", "--value", "--property="+property, unit)
		}
		bare := restarted()
		killMode := show("KillMode") // its servers are in scopes of their own
		if !strings.Contains(bare, "q\"q\n100%\n") {
			t.Errorf("its words are %q", bare)
		}
		g := gateway.Attach(t, in, out, stderr)
		command("units", "--unit", unit, "--install")
		if got := restarted(); got != bare {
			t.Errorf("its words are %q, bare %q", got, bare)
		}
		g.Up()
		if err := os.Symlink(programs.Zoo, dir+"/zoo-mcp"); err != nil { // it is known by its name
			t.Fatal(err)
		}
		m := g.Born("server", "seen", dir+"/zoo-mcp", "setsid")
		listed := func() bool {
			if strings.Contains(command("ls", "--client", fmt.Sprint(g.PID), "--json"), `"unit": "mcp-`) {
				return true
			}
			g.Tell("hello seen") // the watcher can miss a message on a busy machine, and takes the next one (TestLate)
			return false
		}
		if !pace.Eventually(escape.Patience, listed) {
			t.Error("ls does not show it")
		}
		for property, want := range map[string]string{
			"KillMode": killMode, "SyslogIdentifier": "plain-gateway", "NeedDaemonReload": "no",
		} {
			if got := show(property); got != want {
				t.Errorf("%s=%s, want %s", property, got, want)
			}
		}
		systemctl("stop", unit)
		m.Gone(t)
		command("units", "--unit", unit, "--remove")
		if got := restarted(); got != bare {
			t.Errorf("its words are %q after all, bare %q", got, bare)
		}
		if left, err := os.ReadDir(file + ".d"); err == nil {
			t.Errorf("left: %v", left)
		}
	})
}
