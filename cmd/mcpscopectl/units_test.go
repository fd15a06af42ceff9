// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/units"
)

// Without a running manager nothing is written, and the reason is a sentence.
func TestUnitsWithoutSystemd(t *testing.T) {
	if systemd.Present(systemd.Own()) == nil {
		t.Skip("this host has a manager")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	for _, args := range []string{"--install", "--install --now", "--remove --now", "--unit g --install"} {
		s := say(append([]string{"units"}, strings.Fields(args)...)...)
		if s.status != cli.ExitFailure || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: cannot reach systemd: ") {
			t.Errorf("%s: %+v", args, s)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestUnitsArePrinted(t *testing.T) {
	t.Setenv("HOME", "/nonexistent")
	s := say("units")
	for _, want := range []string{"/mcpscope-sweep.timer\n", "[Timer]", "ExecStart=" + units.InstalledPrograms().Mcpscope + " sweep"} {
		if s.status != cli.ExitOK || s.err != "" || !strings.Contains(s.out, want) {
			t.Errorf("no %q in %+v", want, s)
		}
	}
	for args, want := range map[string]string{
		"--now":                     "units: --now is for --install and --remove\nmcpscope: hint: mcpscope help units\n",
		"--install --remove":        "units: --install and --remove exclude each other\nmcpscope: hint: mcpscope help units\n",
		"--unit x --check":          "units: unknown flag: --check\nmcpscope: hint: mcpscope help units\n",
		"--match x":                 "units: flags of mcpscope gateway are for --unit UNIT, and not for --remove\nmcpscope: hint: mcpscope help units\n",
		"--unit x --memory-max few": "units: --memory-max \"few\": ",
		"--unit ../x":               "cannot find the command of the gateway: \"../x\" is not the name of a service\n",
	} {
		s := say(append([]string{"units"}, strings.Fields(args)...)...)
		if s.status == cli.ExitOK || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: "+want) {
			t.Errorf("%s: %+v", args, s)
		}
	}
}
