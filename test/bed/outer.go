// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settle is what processes get to be gone after the tests: a supervisor whose
// group has just been removed still needs the time to exit.
const settle = 30 * time.Second

// outer makes the sandbox, runs the inner process in it and removes it.
func outer() int {
	box, err := newSandbox()
	if err != nil {
		return fail("%v", err)
	}
	code := box.run()
	if err := box.clear(&code); err != nil {
		return fail("cannot remove %s: %v", box.dir, err)
	}
	return code
}

func (s *sandbox) run() int {
	// Orphans of the tests come to us, where pid 1 might leave them as zombies.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fail("become a subreaper: %v", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) // QUIT: go test's timeout
	if err := s.makeTemp(); err != nil {
		return fail("%v", err)
	}
	pid, pidfd, err := s.start()
	if err != nil {
		return fail("start the inner process: %v", err)
	}
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

// makeTemp makes a place for temporary files that is removed even when the inner
// process is killed. Everybody may enter it: some tests run as another user.
func (s *sandbox) makeTemp() error {
	var err error
	if s.temp, err = os.MkdirTemp("", filepath.Base(s.dir)+"."); err != nil {
		return err
	}
	return os.Chmod(s.temp, 0o755)
}

// start executes this binary again, born in the sandbox. The namespaces are
// unshared in the child and not cloned: clone takes the parent's group for the
// root of a new cgroup namespace. With CLONE_NEWNS among the flags the syscall
// package also makes / private.
func (s *sandbox) start() (pid, pidfd int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	own, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return 0, 0, fmt.Errorf("pidfd_open (Linux 5.3): %w", err)
	}
	defer unix.Close(own)
	pid, err = syscall.ForkExec(self, os.Args, &syscall.ProcAttr{
		Env:   append(os.Environ(), stageEnv+"="+stageSetUp, "TMPDIR="+s.temp),
		Files: []uintptr{0, 1, 2, uintptr(own)},
		Sys: &syscall.SysProcAttr{
			UseCgroupFD:  true,
			CgroupFD:     s.fd,
			Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP,
			PidFD:        &pidfd,
		},
	})
	return pid, pidfd, err
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

// clear turns a good code into a bad one when something is left, and leaves
// nothing in any case.
func (s *sandbox) clear(code *int) error {
	_ = WaitEmpty(s.dir, settle) // who is late is in the list
	left, err := s.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		fmt.Fprintln(os.Stderr, "FAIL: bed: leaked by this test run:")
		for _, line := range left {
			fmt.Fprintln(os.Stderr, "\t"+line)
		}
		*code = max(*code, 1)
	}
	defer unix.Close(s.fd)
	return errors.Join(Destroy(s.dir), removeTemp(s.dir))
}
