// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// A service that knows nothing of mcpscope becomes a gateway by one command and a restart, with the very command that
// its unit has, and is what it was when the drop-in is removed.
func TestInstalledDropIn(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		h := host.Current(t)
		dir, err := os.MkdirTemp(host.Shared, "installed.")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) }) // with the host, at the latest
		pipes := map[string]*os.File{}
		for _, name := range []string{"in", "out"} {
			path := filepath.Join(dir, name)
			if err = errors.Join(err, unix.Mkfifo(path, 0o666), os.Chown(path, u.UID, u.UID)); err == nil {
				pipes[name], err = os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0) // so that neither has an end
			}
		}
		stderr, stderrErr := os.Create(dir + "/stderr")
		if err := errors.Join(err, os.Chmod(dir, 0o755), stderrErr, os.Chown(dir+"/stderr", u.UID, u.UID)); err != nil {
			t.Fatal(err)
		}
		unit, file := "plain-gateway.service", u.Units()+"/plain-gateway.service"
		host.Must(t, h.Command(u, "mkdir", "-p", u.Units()))
		// words that a unit file spells otherwise than they are
		text := fmt.Sprintf("[Service]\nType=notify\nNotifyAccess=all\nEnvironment=\"WORDS=one two\"\nExecStart=/bin/sh -c 'printf \"%%%%s\\\\n\" \"$@\" >%[1]s/words; exec %[2]s/like gateway run <%[1]s/in >%[1]s/out 2>>%[1]s/stderr' sh $WORDS ${WORDS} \"a b\" 'q\"q' 100%%%% \";\" \"\"\n",
			dir, host.Shared)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o644), os.Chmod(dir, 0o777)); err != nil {
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
		refused, err := h.Command(u, mcpscope, "units", "gateway", "--unit", "no-such-gateway", "--install").CombinedOutput()
		if err == nil || !strings.Contains(string(refused), "there is no such unit") {
			t.Errorf("an unknown unit: %s (%v)", refused, err)
		}

		systemctl("daemon-reload")
		systemctl("start", unit)
		bare := words()
		g := gateway.Attach(t, pipes["in"], pipes["out"], stderr)
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
		listed := ""
		isListed := func() bool {
			listed = host.Must(t, h.Command(u, mcpscope, "ls", "--format", "{{.Client.PID}} {{.Unit}}"))
			return strings.Contains(listed, fmt.Sprintf("%d mcp-", g.PID))
		}
		for deadline := time.Now().Add(escape.Patience); !isListed(); escape.PollFor(10 * time.Millisecond) { // it is taken when it reads its first message
			if time.Now().After(deadline) {
				t.Fatalf("ls does not show it: %s", listed)
			}
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
		if n := m.UntilDead(escape.Patience); n > 0 {
			t.Errorf("%d left:\n\t%s", n, strings.Join(m.Survivors(), "\n\t"))
		}

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
