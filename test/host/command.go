// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Command runs argv in the host, as exec.Command would. For a user it has that user's
// ids, and nothing in its environment that a session would add.
func (h *Host) Command(u User, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	if u.UID != 0 {
		cmd.Dir, cmd.Env = u.Home, u.environ()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.credential()}
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

// environ is what every program of the user gets, from cron as well as at login.
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

// An enterPlan is what a process needs to run a command in a host.
type enterPlan struct {
	Init  int    // pid of the host's PID 1
	Group string // where the command is born
	Argv  []string
}

// enter runs argv in the host, beside its PID 1, as root.
func (m *machine) enter(argv ...string) *exec.Cmd {
	cmd, err := stageCommand(stageEnter, enterPlan{
		Init:  m.init.Process.Pid,
		Group: filepath.Join(m.group, "init.scope"),
		Argv:  argv,
	})
	if err != nil {
		return &exec.Cmd{Err: err}
	}
	return cmd
}

// enterAndRun is the stage between a test and its command in a host. The command
// must be a child: a process never changes its own pid namespace.
func enterAndRun(p enterPlan) error {
	group, err := unix.Open(p.Group, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the host's group: %w", err)
	}
	if err := enterNamespaces(p.Init); err != nil {
		return err
	}
	path, err := exec.LookPath(p.Argv[0])
	if err != nil {
		return err
	}
	return runChild(path, p.Argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2}, // what follows is inherited, as nothing closes it
		Sys:   &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group},
	})
}

// enterNamespaces moves the calling thread, which must be locked. A thread that
// shares its root directory with others may not change its mount namespace.
func enterNamespaces(init int) error {
	pidfd, err := unix.PidfdOpen(init, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	return os.NewSyscallError("setns", unix.Setns(pidfd, unix.CLONE_NEWNS|unix.CLONE_NEWPID|
		unix.CLONE_NEWIPC|unix.CLONE_NEWUTS|unix.CLONE_NEWNET|unix.CLONE_NEWCGROUP))
}

// runChild stands in for its child: it passes signals on, and exits with the child's
// status, or 128+n if that was ended by a signal.
func runChild(path string, argv []string, attr *syscall.ProcAttr) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn...)
	pidfd := -1
	attr.Sys.PidFD = &pidfd
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return fmt.Errorf("execute %s: %w", strings.Join(argv, " "), err)
	}
	go func() {
		for sig := range signals {
			_ = unix.PidfdSendSignal(pidfd, sig.(syscall.Signal), nil, 0) // it may just have ended
		}
	}()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	os.Exit(code)
	return nil
}

// passedOn are signals that reach the tests: go test sends SIGQUIT when time is over,
// for the traces.
var passedOn = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
