// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

const configuration = `{"mcpServers": {"clock": {"command": "sh", "args": ["-c", "echo ready; exec sleep 3000"]}}}`

// used goes the way of a reader of the README: a server is wrapped, its client starts it, ls shows
// it, it ends with its client, and the configuration is as before.
func used(t *testing.T, mcpscope string) {
	t.Helper()
	h := host.Current(t)
	file := host.Tester.Home + "/.claude.json"
	place(t, host.Tester, file, configuration)
	says(t, 0, h.Command(host.Tester, mcpscope, "wrap", "claude-code", "--yes"))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		MCPServers struct {
			Clock struct {
				Command string
				Args    []string
			}
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	server := config.MCPServers.Clock
	if server.Command != mcpscope {
		t.Errorf("the client starts %q, not %q", server.Command, mcpscope)
	}
	cmd := h.Command(host.Tester, append([]string{server.Command}, server.Args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Errorf("the server says %q, %v", line, err)
	}
	if said := says(t, 0, h.Command(host.Tester, mcpscope, "ls")); !strings.Contains(said, " clock ") || !strings.Contains(said, " systemd-user") {
		t.Errorf("ls says %q", said)
	}
	_ = stdin.Close()
	_ = cmd.Wait() // ended by a signal: it does not read its input
	if said := says(t, 0, h.Command(host.Tester, mcpscope, "ls", "--quiet")); said != "" {
		t.Errorf("left: %s", said)
	}
	says(t, 0, h.Command(host.Tester, mcpscope, "unwrap", "--all", "--yes"))
	if text, err := os.ReadFile(file); err != nil || string(text) != configuration {
		t.Errorf("%v: %s", err, text)
	}
}
