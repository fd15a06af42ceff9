// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Another user makes a group with the id of root's server, which stands in the names of directories and in
// /proc/PID/limits. What root then does about that user's group must not reach root's server.
func TestForgedGroupWithTheIDOfAServer(t *testing.T) {
	t.Parallel()
	const attacker = 65533
	for _, command := range []string{"sweep --all-users", "stop --all-users --now forged"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway()
			s := g.Server(binaries.Programs, "a", "setsid")
			group := filepath.Dir(w.contained(s))
			id := group[strings.LastIndexByte(group, '-')+1:]
			delegated := w.Unique("delegated")
			for _, file := range []string{"", "cgroup.procs"} {
				if err := os.Chown(filepath.Join(delegated, file), attacker, attacker); err != nil {
					t.Fatal(err)
				}
			}
			forged := w.Seen(filepath.Join(delegated, "mcp-evil-"+id))
			script := `umask 077; mkdir "$1" "$1/supervisor" "$1/payload"`
			cmd := w.Command("setpriv", "--reuid", fmt.Sprint(attacker), "--regid", fmt.Sprint(attacker), "--clear-groups", "sh", "-euc", script, "sh", forged)
			if o, err := escape.Finish(delegated, cmd); err != nil || o.Status != 0 {
				t.Fatalf("the attacker: %v, %v: %s", o.Status, err, o.Stderr)
			}
			payload := filepath.Join(delegated, "mcp-evil-"+id, "payload")
			for attr, value := range map[string]string{"armed": "1", "name": "forged", "start": "2020-01-01T00:00:00Z"} {
				if err := unix.Setxattr(payload, "user.mcpscope."+attr, []byte(value), 0); err != nil {
					t.Fatal(err)
				}
			}
			w.run(strings.Fields(command)...)
			if n := len(s.Running()); n != 2 {
				t.Errorf("%d members live, want 2", n)
			}
			g.Own.Signal(unix.SIGKILL)
			w.dead(s)
			w.clean()
		})
	}
}
