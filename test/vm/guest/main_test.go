// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/host"
)

// A machine contains the programs of a release of Debian.
type machine struct {
	linux, systemd string // "" of one that is not out yet
}

var machines = map[string]machine{
	"bookworm": {linux: "6.1", systemd: "252"},
	"trixie":   {linux: "6.12", systemd: "257"},
	"forky":    {},
}

func TestMachine(t *testing.T) {
	release, kind, _ := strings.Cut(suite, "+")
	want, known := machines[release]
	if !known {
		t.Fatalf("nothing is known of %s", release)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	if have := unix.ByteSliceToString(name.Release[:]); want.linux != "" && !strings.HasPrefix(have, want.linux+".") {
		t.Errorf("Linux %s, want %s", have, want.linux)
	}
	if kind == "init" {
		return
	}
	out, err := exec.Command("systemctl", "--version").Output()
	if have := strings.Fields(string(out)); err != nil || want.systemd != "" && have[1] != want.systemd {
		t.Errorf("%v, %q, want systemd %s", err, have, want.systemd)
	}
	if booted, err := os.ReadFile("/proc/1/comm"); string(booted) != "systemd\n" {
		t.Errorf("PID 1 is %q, %v", booted, err)
	}
}

// suite is that of the machine, an argument of ../boot; it is "" elsewhere.
var suite = os.Getenv("VM_SUITE")

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) {
	if suite == "" {
		fmt.Println("not in a virtual machine: make test-vm")
		os.Exit(0)
	}
	host.Main(m, host.Options{Users: true})
}
