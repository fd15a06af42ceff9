// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// A removal is refused while a file that was wrapped by its path, in a directory that no client names, has a
// wrapped server.
func TestRemovalFindsWhatWasWrappedByPath(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""} {
		t.Setenv(name, value)
	}
	runner, err := cli.FindRunner()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(project, "servers.json")
	text := `{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := say("removal", "--own"); s.status != cli.ExitOK || s.out != "" {
		t.Errorf("before anything is wrapped: %+v", s)
	}
	if s := say("wrap", "--yes", "--program", runner, file); s.status != cli.ExitOK {
		t.Fatalf("%+v", s)
	}
	if s := say("removal", "--own"); s.status != cli.ExitFailure || !strings.Contains(s.out, file+": 1 wrapped server") {
		t.Errorf("with a wrapped file: %+v", s)
	}
}
