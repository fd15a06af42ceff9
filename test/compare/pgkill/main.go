// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command pgkill does what SDKs do to end a server, as a command in front of it: a process group of
// the server's own, which gets the signals that we get, SIGKILL a second after the first, and SIGKILL
// when the main process has exited. The main process gets SIGKILL when we die.
package main

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	runtime.LockOSThread() // the signal comes at the end of the thread
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		os.Exit(127)
	}
	group := -cmd.Process.Pid // not waited for yet: it is the one
	go func() {
		for sig := range signals {
			_ = syscall.Kill(group, sig.(syscall.Signal))
			time.AfterFunc(time.Second, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		}
	}()
	// waits without reaping, so that the number is nobody else's
	awaitExit(cmd.Process.Pid)
	_ = syscall.Kill(group, syscall.SIGKILL)
	_ = cmd.Wait()
	os.Exit(max(cmd.ProcessState.ExitCode(), 0))
}
