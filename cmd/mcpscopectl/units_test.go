// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/units"
)

// In a home of the test's own: the user's units.
func TestUnitsAreInstalledAndRemoved(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	dir := filepath.Join(home, ".config/systemd/user")
	slice := filepath.Join(dir, "mcp.slice")
	const now = "\nnow: systemctl --user daemon-reload"
	s := say("units", "--user", "--install")
	if s.status != cli.ExitOK || s.err != "" || strings.Count(s.out, "installed "+dir) != 5 ||
		!strings.Contains(s.out, now) {
		t.Errorf("%+v", s)
	}
	if err := os.WriteFile(slice, []byte("[Slice]\nTasksMax=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"install", "remove"} {
		want := "mcpscope: cannot " + verb + " " + slice +
			": it was changed, or is not ours; --force does it nevertheless\n"
		if s := say("units", "--user", "--"+verb); s.status != cli.ExitFailure || s.err != want {
			t.Errorf("%s: %+v", verb, s)
		}
	}
	if s := say("units", "--user", "--remove", "--force"); s.status != cli.ExitOK ||
		!strings.Contains(s.out, "removed "+slice) {
		t.Errorf("%+v", s)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestUnitsAreWhatWasNamed(t *testing.T) {
	t.Setenv("HOME", "/nonexistent")
	s := say("units", "--system", "mcp.slice", "gateway")
	for _, want := range []string{"# /etc/systemd/system/mcp.slice\n", "\n# /etc/systemd/system/NAME.service.d/mcpscope.conf\n", "ExecStart=" + units.InstalledPrograms().Mcpscope + " gateway -- COMMAND\n", "ExecStopPost=-" + units.InstalledPrograms().Mcpscope + " sweep --unit=%n\n"} {
		if s.status != cli.ExitOK || s.err != "" || !strings.Contains(s.out, want) || strings.Contains(s.out, "[Timer]") {
			t.Errorf("no %q in %+v", want, s)
		}
	}
	for args, want := range map[string]string{
		"--system --user":     "--system or --user, not both",
		"gateway --unit ../x": `"../x" is no name of a service`,
	} {
		s := say(append([]string{"units"}, strings.Fields(args)...)...)
		if s.status != cli.ExitUsage || s.out != "" || s.err != "mcpscope: units: "+want+"\nmcpscope: hint: mcpscope help units\n" {
			t.Errorf("%s: %+v", args, s)
		}
	}
}
