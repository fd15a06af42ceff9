// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// A poorPlan lists the abilities that a process drops before it executes the command.
type poorPlan struct {
	Argv     []string
	Group    string // its own
	Run      string // what is mounted on /run: a directory, "" for nothing at all, or keepRun
	Cgroupfs string // "" for the present one
	Slice    bool   // the group has root's directory of the backend cgroup
	Proc     string
	ReadOnly bool

	UID        int
	Session    bool // the group is a login session's
	Delegated  bool
	Idle       bool // run the command as a child, and reap nothing else
	NoNewPrivs bool
	Files      uint64
	Processes  uint64
	Refuse     []refusal
}

const keepRun = "keep"

// becomePoor does the irreversible steps in an order in which each still can. The
// caller has locked the thread, and given us a mount namespace of our own.
func becomePoor(p poorPlan) error {
	path, err := exec.LookPath(p.Argv[0])
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		p.replaceRun, p.replaceCgroupfs, p.replaceProc, p.lockRoot,
		p.limit, p.refuse, p.becomeUser,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if p.Idle {
		return idle(path, p.Argv)
	}
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, p.Argv, os.Environ()))
}

func (p poorPlan) limit() error {
	if p.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
	}
	if p.Files != 0 {
		// Of package syscall, or Go would put the old limit back before execve.
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: p.Files, Max: p.Files}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	if p.Processes != 0 {
		err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: p.Processes, Max: p.Processes})
		return os.NewSyscallError("setrlimit", err)
	}
	return nil
}

// becomeUser changes the thread that will call execve, and no other.
func (p poorPlan) becomeUser() error {
	if p.UID == 0 {
		return nil
	}
	id := uintptr(p.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
		return os.NewSyscallError("setresgid", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}

// idle is a PID 1 that waits for its own child alone. A first child, already dead,
// stays a zombie for as long as we live.
func idle(path string, argv []string) error {
	if os.Getpid() != 1 {
		return errors.New("not PID 1: zombies would be another's")
	}
	zombie, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec(zombie, []string{"true"}, &syscall.ProcAttr{})
	if err != nil {
		return fmt.Errorf("start what will be a zombie: %w", err)
	}
	for err = unix.EINTR; err == unix.EINTR; { // the Go runtime interrupts its own threads
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err != nil {
		return os.NewSyscallError("waitid", err)
	}
	return runChild(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
}

// runChild exits with its child's status, or 128+n if that was ended by a signal.
func runChild(path string, argv []string, attr *syscall.ProcAttr) error {
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return fmt.Errorf("execute %s: %w", path, err)
	}
	var status syscall.WaitStatus
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = syscall.Wait4(pid, &status, 0, nil)
	}
	if status.Signaled() {
		os.Exit(128 + int(status.Signal()))
	}
	os.Exit(status.ExitStatus())
	return nil
}
