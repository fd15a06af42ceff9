// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Command runs argv in the host, as exec.Command would. For a user it has that user's
// ids, and nothing in its environment that a session would add: an SDK passes none of that
// on. With Options.Users tester's are in a login session nevertheless, as what a person
// starts is. Nolinger's are in none, and neither are those of a host without users.
func (h *Host) Command(u User, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	if u.UID != 0 {
		cmd.Dir = u.Home
		cmd.Env = u.environ()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.credential()}
	}
	if u == Tester && testersGroup() != nil {
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(testersGroup().Fd())
	}
	return cmd
}

// Must runs a command and returns what it said.
func Must(tb testing.TB, cmd *exec.Cmd) string {
	tb.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("%q: %v: %s", cmd.Args, err, out)
	}
	return string(out)
}

func (u User) credential() *syscall.Credential {
	return &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.UID)}
}

// environ is the environment of every program of the user, from cron as well as at login.
func (u User) environ() []string {
	return []string{
		"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=/bin/bash",
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
	}
}

// RuntimeDir is where the user's manager and bus are, if there are any.
func (u User) RuntimeDir() string { return fmt.Sprintf("/run/user/%d", u.UID) }

// ManagerEnviron is the environment with which tools reach the user's manager.
func (u User) ManagerEnviron() []string {
	dir := u.RuntimeDir()
	return append(u.environ(), "XDG_RUNTIME_DIR="+dir, "DBUS_SESSION_BUS_ADDRESS=unix:path="+dir+"/bus")
}

// Manage runs systemctl, systemd-run or busctl on the manager of a user, which is the
// system manager for Root.
func (h *Host) Manage(u User, tool string, args ...string) *exec.Cmd {
	if u.UID == 0 {
		return h.Command(u, append([]string{tool}, args...)...)
	}
	cmd := h.Command(u, append([]string{tool, "--user"}, args...)...)
	cmd.Env = u.ManagerEnviron()
	return cmd
}

// enter runs argv in the host, beside its PID 1, as root.
func (m *machine) enter(argv ...string) *exec.Cmd {
	group, err := unix.Open(filepath.Join(m.group, "init.scope"), unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // until we exit
	if err != nil {
		return &exec.Cmd{Err: fmt.Errorf("open the host's group: %w", err)}
	}
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(m.init.Process.Pid),
		"--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup", "--"}, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group}
	return cmd
}
