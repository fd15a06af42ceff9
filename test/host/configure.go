// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"

	"github.com/mcpscope/mcpscope/test/bed"
)

// target is the unit that the host boots to.
const target = "mcpscope-test.target"

// masked are units that reach beyond a container, or take time for nothing.
var masked = []string{
	"systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-control.socket",
	"systemd-udevd-kernel.socket", "systemd-modules-load.service", "systemd-sysctl.service",
	"systemd-binfmt.service", "systemd-timesyncd.service", "systemd-random-seed.service",
	"systemd-pstore.service", "systemd-oomd.service", "systemd-networkd.service",
	"systemd-networkd.socket", "systemd-resolved.service", "systemd-hwdb-update.service",
	"systemd-remount-fs.service", "systemd-update-utmp.service", "systemd-journal-flush.service",
	"systemd-machine-id-commit.service", "systemd-boot-update.service", "systemd-sysusers.service",
	"systemd-firstboot.service", "systemd-repart.service", "kmod-static-nodes.service",
	"systemd-tmpfiles-setup-dev.service", "systemd-tmpfiles-clean.timer",
	"proc-sys-fs-binfmt_misc.automount", "proc-sys-fs-binfmt_misc.mount", "dev-hugepages.mount",
	"dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
	"sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
}

// configure writes the host's own files over the machine's.
func (t tree) configure(p bootPlan) error {
	for _, step := range []func() error{
		t.removeInstalled,
		t.maskUnits,
		t.maskGenerators,
		t.disarmTmpfiles,
		t.identity,
		t.accounts,
		func() error { return t.logind(p) },
		func() error { return t.write("run/systemd/system/"+target, targetUnit(p)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// removeInstalled removes what the machine has of mcpscope itself, unless the tests are of an installed one.
func (t tree) removeInstalled() error {
	for _, path := range bed.Installed(string(t)) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// maskUnits also forgets what the machine's administrator has enabled.
func (t tree) maskUnits() error {
	const units = "etc/systemd/system/"
	for _, name := range []string{"sysinit", "basic", "timers", "sockets", "paths", "network", "local-fs"} {
		if err := os.RemoveAll(t.path(units + name + ".target.wants")); err != nil {
			return err
		}
	}
	for _, name := range masked {
		if err := t.link("/dev/null", units+name); err != nil {
			return err
		}
	}
	return nil
}

// maskGenerators is for programs that a manager runs at each start and reload, some of them 15: they make
// nothing that the host needs, and together take longer than systemd.
func (t tree) maskGenerators() error {
	for _, kind := range []string{"system-generators", "user-generators", "user-environment-generators"} {
		all, _ := os.ReadDir("/usr/lib/systemd/" + kind) // none, where there is no such directory
		for _, generator := range all {
			if err := t.link("/dev/null", "etc/systemd/"+kind+"/"+generator.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// disarmTmpfiles lets systemd-tmpfiles make directories and remove none: below
// the host's /tmp there may be a directory of the machine, with the test binary.
func (t tree) disarmTmpfiles() error {
	if err := t.link("/dev/null", "etc/tmpfiles.d/tmp.conf"); err != nil {
		return err
	}
	return t.write("etc/systemd/system/systemd-tmpfiles-setup.service.d/no-remove.conf",
		"[Service]\nExecStart=\nExecStart=systemd-tmpfiles --create --boot --exclude-prefix=/dev\n")
}

func (t tree) identity() error {
	for name, text := range map[string]string{
		"etc/fstab":      "",
		"etc/hostname":   "mcpscope-test\n",
		"etc/machine-id": "6d637073636f706500000000deadbeef\n", // a file without one would be a first boot
	} {
		if err := t.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// logind keeps no user manager after the last logout: the default is 10 s.
func (t tree) logind(p bootPlan) error {
	if p.Users {
		if err := t.write("var/lib/systemd/linger/"+Tester.Name, ""); err != nil {
			return err
		}
	}
	return t.write("etc/systemd/logind.conf.d/test.conf", "[Login]\nUserStopDelaySec=0\n")
}

// targetUnit requires all that tests rely on, so that it is active only with them.
func targetUnit(p bootPlan) string {
	units := "basic.target dbus.service systemd-logind.service systemd-user-sessions.service"
	if p.Users {
		units += fmt.Sprintf(" user@%d.service", Tester.UID)
	}
	return fmt.Sprintf("[Unit]\nRequires=%s\nAfter=%[1]s\n", units)
}
