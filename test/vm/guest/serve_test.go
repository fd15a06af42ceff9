// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// A client starts a server somewhere.
type client struct {
	name    string
	command func(h *host.Host, argv ...string) *exec.Cmd
	// backends are those that work for it, the best first.
	backends []string
}

// clients are those of a kind of machine.
func clients() []client {
	if strings.HasSuffix(suite, "+init") {
		return []client{{"root", plain(host.Root), []string{"cgroup", "tree"}}}
	}
	return []client{
		{"root", plain(host.Root), []string{"systemd-system", "cgroup", "tree"}},
		{"lingering", plain(host.Tester), []string{"systemd-user", "tree"}},
		{"neither", plain(host.NoLinger), []string{"tree"}},
		{"delegated unit of the system", inUnit(host.Root), []string{"systemd-system", "delegated", "cgroup", "tree"}},
		{"delegated unit of the user", inUnit(host.Tester), []string{"systemd-user", "delegated", "tree"}},
	}
}

func plain(u host.User) func(*host.Host, ...string) *exec.Cmd {
	return func(h *host.Host, argv ...string) *exec.Cmd { return h.Command(u, argv...) }
}

func inUnit(u host.User) func(*host.Host, ...string) *exec.Cmd {
	return func(h *host.Host, argv ...string) *exec.Cmd {
		return h.Manage(u, "systemd-run", append([]string{"--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"}, argv...)...)
	}
}

// A server's bytes and its status come through, on every backend, and auto takes the
// best of them.
func TestServer(t *testing.T) {
	h := host.Current(t)
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Run("auto", func(t *testing.T) { serve(t, h, c, "auto", c.backends[0]) })
			for _, b := range c.backends {
				t.Run(b, func(t *testing.T) { serve(t, h, c, b, b) })
			}
		})
	}
}

func serve(t *testing.T, h *host.Host, c client, backend, want string) {
	t.Helper()
	every := make([]byte, 64<<10) // a full pipe
	for i := range every {
		every[i] = byte(i ^ i>>8)
	}
	const never = "1m" // a busy machine takes longer than the grace of a server
	cmd := c.command(h, mcpscope, "run", "--backend", backend, "--eof-grace", never, "--report", "fd:3", "--", "sh", "-c", "cat; exit 7")
	report, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer report.Close()
	var out, said bytes.Buffer
	cmd.Stdin = bytes.NewReader(every)
	cmd.Stdout = &out
	cmd.Stderr = &said
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Run()
	theirs.Close()
	if code := cmd.ProcessState.ExitCode(); code != 7 || said.Len() > 0 {
		t.Fatalf("%v, want status 7; stderr: %s", err, said.String())
	}
	if !bytes.Equal(out.Bytes(), every) {
		t.Errorf("%d bytes came back, want the same %d", out.Len(), len(every))
	}
	var told struct{ Backend string }
	if err := json.NewDecoder(report).Decode(&told); err != nil || told.Backend != want {
		t.Errorf("backend %q, want %s (%v)", told.Backend, want, err)
	}
}
