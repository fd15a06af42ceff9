// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command wrapper runs a command below processes of Go, each of which starts the next one
// and waits for it: wrapper N COMMAND… That is the least that N of them can cost.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func main() {
	status, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "wrapper: %v\n", err)
		os.Exit(127)
	}
	os.Exit(status)
}

func run(depth string, command []string) (int, error) {
	n, err := strconv.Atoi(depth)
	if err != nil {
		return 0, err
	}
	file := command[0]
	if n > 1 {
		file = "/proc/self/exe"
		command = append([]string{"wrapper", strconv.Itoa(n - 1)}, command...)
	}
	pid, err := syscall.ForkExec(file, command, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("execute %s: %w", file, err)
	}
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status.ExitStatus(), err
		}
	}
}
