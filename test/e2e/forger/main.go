// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Forger pretends to be a user's guard of a process tree. Started by root, it has a child of root's
// before it becomes that user: forger UID ID CHILD... With "squat" for a child it takes names instead
// that guards had, and lets nobody through who connects.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	uid, err := strconv.Atoi(os.Args[1])
	must(err)
	id, child := os.Args[2], os.Args[3:]
	if child[0] == "squat" {
		must(syscall.Setuid(uid))
		squat(uid)
	} else {
		begin(child)
		must(syscall.Setuid(uid))
		must(unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) // as one that was this user from the start
		must(os.WriteFile("/proc/self/comm", []byte("mcpscope"), 0))
		pretend(uid, id)
	}
	fmt.Println("ready", os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has ended
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "forger:", err)
		os.Exit(1)
	}
}

// begin starts the child on our own descriptors 3 and 4.
func begin(child []string) {
	cmd := exec.Command(child[0], child[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.NewFile(3, "in"), os.NewFile(4, "out"), os.Stderr
	must(cmd.Start())
}

// pretend has what guards of trees have now, and what they had before.
func pretend(uid int, id string) {
	facts, err := json.Marshal(map[string]any{
		"version": 1, "id": id, "name": "forged", "backend": "tree", "guard": os.Getpid(), "launcher": "0 0 0",
		"started": "2020-01-01T00:00:00Z", "client": map[string]any{"pid": 1, "name": "x"}, "heard": true,
	})
	must(err)
	fd, err := unix.MemfdCreate("mcpscope-facts", 0)
	must(err)
	_, err = unix.Write(fd, facts)
	must(err)
	sock := listen(uid, id, 16)
	go func() {
		for {
			if c, _, err := unix.Accept(sock); err == nil {
				_, _ = unix.Write(c, facts)
				unix.Close(c)
			}
		}
	}()
}

func listen(uid int, id string, backlog int) int {
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	must(err)
	must(unix.Bind(sock, &unix.SockaddrUnix{Name: fmt.Sprintf("@mcpscope/%d/%s", uid, id)}))
	must(unix.Listen(sock, backlog))
	return sock
}

// squat fills the queue of each socket.
func squat(uid int) {
	for i := range 12 {
		id := fmt.Sprintf("squat%03d", i)
		listen(uid, id, 0)
		for {
			c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
			must(err)
			if unix.Connect(c, &unix.SockaddrUnix{Name: fmt.Sprintf("@mcpscope/%d/%s", uid, id)}) != nil {
				break
			}
		}
	}
}
