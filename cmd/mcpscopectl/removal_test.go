// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/units"
)

// emptyHome makes a home without any configuration.
func emptyHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""} {
		t.Setenv(name, value)
	}
	return home
}

// A removal is refused while a file that was wrapped by its path, in a directory that no client names, has a
// wrapped server.
func TestRemovalFindsWhatWasWrappedByPath(t *testing.T) {
	emptyHome(t)
	project := t.TempDir()
	runner, err := programs.FindRunner()
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

// The units of a user are listed with the commands that come first.
func TestRemovalFindsUnits(t *testing.T) {
	home := emptyHome(t)
	dir := filepath.Join(home, ".config", "systemd", "user")
	dropIn := units.File{Name: "g.service.d/zz-mcpscope.conf", Text: "[Service]\nExecStart=mcpscope gateway -- /bin/g\n"}
	if _, err := dropIn.Install(dir); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(dir, "a.service")
	if err := os.WriteFile(unit, []byte("[Service]\nExecStart=mcpscope run -- x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, "two units", say("removal", "--own"), said{
		status: cli.ExitFailure,
		out: unit + ": a unit that starts mcpscope\n" +
			dropIn.Path(dir) + ": a drop-in that starts the service under mcpscope\n" +
			"  first: editor " + unit + "\n" +
			"  first: mcpscope units --unit g.service --remove --now\n",
	})
}

// A search that is not complete is a failure, although nothing was found.
func TestRemovalCannotSearch(t *testing.T) {
	home := emptyHome(t)
	loop := filepath.Join(home, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", loop)
	s := say("removal", "--own")
	const want = "mcpscope: cannot search all configurations and units: read the backups in "
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, want) || strings.Count(s.err, "\n") != 1 {
		t.Errorf("%+v", s)
	}
}

// Without the runner it is not known which files start it.
func TestRemovalWithoutRunner(t *testing.T) {
	emptyHome(t)
	runner, err := programs.FindRunner()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(runner, runner+".away"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Rename(runner+".away", runner); err != nil {
			t.Error(err)
		}
	})
	s := say("removal", "--own")
	const want = "mcpscope: cannot find mcpscope: mcpscope is not installed: there is no "
	if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, want) {
		t.Errorf("%+v", s)
	}
}
