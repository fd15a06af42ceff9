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

// Each setting is shown with its origin, and what a file has wrong is named by both commands.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nrequire = true\n[server.\"git*\"]\neof-grace = \"5s\"\nidle-timeot = \"1h\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HOME": "", "XDG_CONFIG_HOME": "", "MCPSCOPE_CONFIG": file, "MCPSCOPE_TERM_GRACE": "7s"} {
		t.Setenv(name, value)
	}
	problem := file + ":5: unknown key \"idle-timeot\"; is it \"idle-timeout\"?\n"
	s := say("config", "show", "github")
	if s.status != cli.ExitOK || s.err != "mcpscope: note: "+problem {
		t.Errorf("%+v", s)
	}
	shown := strings.Join(strings.Fields(s.out), " ")
	for _, want := range []string{
		"backend auto default", "eof-grace 5s " + file + `:4 [server."git*"]`, "require true " + file + ":2 [defaults]", "term-grace 7s MCPSCOPE_TERM_GRACE",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, s.out)
		}
	}
	if s := say("config", "check"); s.status != cli.ExitFailure || s.out != problem || s.err != "" {
		t.Errorf("%+v", s)
	}
	if s := say("config", "sow"); s.status != cli.ExitUsage || s.out != "" || !strings.HasSuffix(s.err, "\nmcpscope: hint: mcpscope help config\n") {
		t.Errorf("%+v", s)
	}
}
