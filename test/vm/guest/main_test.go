// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/host"
)

// A machine has the facts of a release of Debian's.
type machine struct {
	linux, systemd string // "" of one that is not out yet
	cgroupKill     bool   // since Linux 5.14
}

var machines = map[string]machine{
	"bullseye": {linux: "5.10", systemd: "247"},
	"bookworm": {linux: "6.1", systemd: "252", cgroupKill: true},
	"trixie":   {linux: "6.12", systemd: "257", cgroupKill: true},
	"forky":    {cgroupKill: true},
}

// Without cgroup.kill the group is frozen and each member killed: only if the file is
// really missing do the tests go that way.
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
	if kind != "v1" {
		if has := hasKill(t); has != want.cgroupKill {
			t.Errorf("cgroup.kill is there: %v, want %v", has, want.cgroupKill)
		}
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

// hasKill looks into a group of its own: a root has no such file on any kernel.
func hasKill(t *testing.T) bool {
	own, err := bed.OwnGroup()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(own, "machine-test")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer unix.Rmdir(dir)
	_, err = os.Stat(filepath.Join(dir, "cgroup.kill"))
	return err == nil
}

// suite is the machine's, as ../boot takes it. Elsewhere it is empty.
var suite = os.Getenv("VM_SUITE")

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) {
	if suite == "" {
		fmt.Println("not in a virtual machine: make test-vm")
		os.Exit(0)
	}
	host.Main(m, host.Options{})
}
