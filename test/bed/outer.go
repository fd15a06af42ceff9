// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settle is the time for processes to exit after the tests: a guard whose
// group has just been removed still needs the time to exit.
const settle = 15 * time.Second

// outer runs the first process of a pid namespace, which makes the sandbox. It is no more than its messenger.
func outer() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) // QUIT: go test's timeout
	pid, pidfd, err := startStage(stageInit, os.Environ(), &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS})
	if err != nil {
		return fail("start the first process: %v", err)
	}
	return await(pid, pidfd, signals)
}

// first makes the sandbox, runs the inner process in it and removes it.
func first() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	unix.CloseOnExec(outerPidfd)
	go dieWithOuter()
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		os.WriteFile("/proc/self/comm", []byte("init"), 0), // as one that reaps, which programs look for
	); err != nil {
		return fail("mount /proc: %v", err)
	}
	if err := resetProcess(); err != nil {
		return fail("%v", err)
	}
	box, err := newSandbox()
	if err != nil {
		return fail("%v", err)
	}
	code := box.run(signals)
	left, err := box.clear(settle)
	if err != nil {
		return fail("cannot remove %s: %v", box.dir, err)
	}
	if len(left) == 0 {
		return code
	}
	return max(code, fail("leaked by this test run:\n\t%s", strings.Join(left, "\n\t")))
}

// dieWithOuter ends the first process, and so everything, when no process waits for it any more. The
// directories stay for the next run. PR_SET_PDEATHSIG would be shorter, but it follows the parent's thread,
// which Go may end at any time.
func dieWithOuter() {
	for poll := []unix.PollFd{{Fd: outerPidfd, Events: unix.POLLIN}}; ; {
		if n, err := unix.Poll(poll, -1); n == 1 && err == nil {
			os.Exit(1)
		}
	}
}

// outerPidfd is the descriptor by which the first process knows the outer one.
const outerPidfd = 3

func (s *sandbox) run(signals <-chan os.Signal) int {
	if err := s.makeTemp(); err != nil {
		return fail("%v", err)
	}
	if err := furnish(s.temp); err != nil {
		return fail("%v", err)
	}
	env := environment(os.Environ(), s.temp)
	// The namespaces are unshared in the child and not cloned: clone takes the parent's group for the root of
	// a new cgroup namespace. With CLONE_NEWNS among the flags the syscall package also makes / private.
	pid, pidfd, err := startStage(stageSetUp, env, &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: s.fd, Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
		Setsid: true, // those of outside have no number in the namespace
	})
	if err != nil {
		return fail("start the inner process: %v", err)
	}
	return await(pid, pidfd, signals)
}

// await passes signals on until the process has ended.
func await(pid, pidfd int, signals <-chan os.Signal) int {
	ended := reap(pid)
	for {
		select {
		case sig := <-signals:
			_ = unix.PidfdSendSignal(pidfd, sig.(syscall.Signal), nil, 0) // it may just have ended
		case status := <-ended:
			return exitCode(status)
		}
	}
}

func (s *sandbox) makeTemp() (err error) {
	s.temp, err = makeTemp(filepath.Base(s.dir) + ".")
	return err
}

// startStage executes this binary again, with an environment.
func startStage(stage string, env []string, attr *syscall.SysProcAttr) (pid, pidfd int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	if err := openBinary(self); err != nil {
		return 0, 0, err
	}
	own, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return 0, 0, fmt.Errorf("pidfd_open (Linux 5.3): %w", err)
	}
	defer unix.Close(own)
	withoutStage := slices.DeleteFunc(env, func(variable string) bool { return strings.HasPrefix(variable, stageEnv+"=") })
	attr.PidFD = &pidfd
	pid, err = syscall.ForkExec(self, os.Args, &syscall.ProcAttr{
		Env:   append(withoutStage, stageEnv+"="+stage),
		Files: []uintptr{0, 1, 2, uintptr(own)},
		Sys:   attr,
	})
	return pid, pidfd, err
}

// openBinary lets all users execute a binary of go test: some tests run as another user, and the umask of the machine has
// made it their owner's alone. A binary that a person has made stays as it is.
func openBinary(path string) error {
	if !strings.HasPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), "go-build") {
		return nil
	}
	return os.Chmod(path, 0o755)
}

// reap waits for every child, ours and those that come to us, and reports the
// one that matters. It ends when there is no descendant any more.
func reap(inner int) <-chan syscall.WaitStatus {
	ended := make(chan syscall.WaitStatus, 1)
	go func() {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, 0, nil)
			if errors.Is(err, syscall.ECHILD) {
				return
			}
			if err == nil && pid == inner {
				ended <- status
			}
		}
	}()
	return ended
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return fail("the test process was ended by %v", status.Signal())
	}
	return status.ExitStatus()
}

// clear removes the sandbox, and returns what was still in it after the limit.
func (s *sandbox) clear(limit time.Duration) (left []string, err error) {
	defer unix.Close(s.fd)
	_ = WaitEmpty(s.dir, limit) // a process that is late is in the list
	left, err = s.leftovers()
	_ = unix.Unmount(s.temp, unix.MNT_DETACH) // a mount is there only where /tmp is noexec
	return left, errors.Join(err, Destroy(s.dir), removeTemp(s.dir))
}
