// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A server that a manager activates by a socket finds that, as without mcpscope: descriptor 3 is for its pid.
func TestSocketActivation(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		dir := host.Directory(t, u)
		socket := filepath.Join(dir, "socket")
		t.Cleanup(func() { host.StopUnits(t, u, "activated.socket", "activated.service") })
		const script = `test $LISTEN_PID = $$ && test $LISTEN_FDS = 1 && test -S /proc/self/fd/3 && echo mine >said; exec sleep infinity`
		server := filepath.Join(dir, "server") // a manager would replace the variables in a command line
		if err := os.WriteFile(server, []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		host.Must(t, h.Manage(u, "systemd-run", "--quiet", "--collect", "--unit=activated", "--socket-property=ListenStream="+socket,
			"--property=WorkingDirectory="+dir, mcpscope, "run", "--name", "activated", "--", "sh", server))
		client, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		said := ""
		isSaid := func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "said")) // none yet
			said = string(text)
			return said != ""
		}
		if !pace.Eventually(escape.Patience, isSaid) || said != "mine\n" {
			t.Errorf("the server says %q", said)
		}
	})
}
