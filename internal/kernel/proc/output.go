// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Output returns the text that a program writes to stdout and stderr, however it ends.
func Output(path string, argv, env []string) ([]byte, error) {
	r, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	defer r.Close()
	files := []uintptr{0, to.Fd(), to.Fd()}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: files})
	_ = to.Close() // the program's
	if err != nil {
		return nil, fmt.Errorf("execute %s: %w", path, err)
	}
	text, err := io.ReadAll(r)
	_, _ = syscall.Wait4(pid, nil, 0, nil) // the text shows how it ended
	return text, err
}
