// SPDX-License-Identifier: Apache-2.0

// Listener is a server without a client: it listens on the socket that is named and echoes lines, and
// has a child in a session of its own that no signal but SIGKILL ends. When it listens it writes
// SOCKET.up, beside the socket.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if os.Args[1] == "child" {
		stay()
	}
	fmt.Fprintln(os.Stderr, serve(os.Args[1]))
	os.Exit(1)
}

// stay hears signals, and goes on.
func stay() {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	for {
		<-heard
	}
}

func serve(socket string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "child")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.WriteFile(socket+".up", []byte("up\n"), 0o600); err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(c, c) // until the client goes
			_ = c.Close()
		}()
	}
}
