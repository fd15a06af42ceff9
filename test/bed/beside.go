// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Beside is the whole body of a TestMain for tests beside the code that read files of a user or of the machine, and that
// need no group of their own. It does not return. It executes the test binary once more, with an empty home, and with
// no variable, limit or umask of the machine. Root's tests see nothing of an installed mcpscope either: to hide
// /etc/mcpscope takes a mount namespace.
func Beside(tests func() int) {
	switch os.Getenv(stageEnv) {
	case "":
		os.Exit(startBeside())
	case stageBeside:
		if err := settleBeside(); err != nil {
			os.Exit(fail("%v", err))
		}
	}
	os.Exit(tests())
}

// startBeside makes a temporary directory, executes this binary, and removes the directory also when that was killed.
func startBeside() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) // QUIT: go test's timeout
	if err := resetProcess(); err != nil {
		return fail("%v", err)
	}
	temp, err := makeTemp("mcpscope-beside.")
	if err != nil {
		return fail("%v", err)
	}
	// The parent is this thread, which init has locked: it lives as long as this process.
	attributes := &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if os.Geteuid() == 0 {
		attributes.Unshareflags = unix.CLONE_NEWNS // package syscall also makes / private
	}
	pid, pidfd, err := startStage(stageBeside, environment(os.Environ(), temp), attributes)
	if err != nil {
		return fail("start the tests: %v", err)
	}
	code := await(pid, pidfd, signals)
	if err := os.RemoveAll(temp); err != nil {
		return max(code, fail("%v", err))
	}
	return code
}

// settleBeside runs in the process of the tests.
func settleBeside() error {
	unix.CloseOnExec(outerPidfd) // what is on that descriptor is of no use here
	if err := os.Setenv(stageEnv, stageReady); err != nil {
		return err
	}
	if err := furnish(os.TempDir()); err != nil {
		return fmt.Errorf("hide the machine: %w", err)
	}
	return nil
}
