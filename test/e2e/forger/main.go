// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Forger pretends to be a user's guard of a process tree. Started by root, it starts a child as root
// before it becomes that user: forger UID MCPSCOPE CHILD... Its page is a copy of one that MCPSCOPE made for
// that user.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

func main() {
	uid, err := strconv.Atoi(os.Args[1])
	must(err)
	begin(os.Args[3:])
	comm, text := genuine(uid, os.Args[2])
	(*page.Page)(unsafe.Pointer(&text[0])).ByGuard.GuardPID = int32(os.Getpid())
	must(syscall.Setuid(uid))
	must(unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) // as one that was this user from the start
	fd, err := unix.MemfdCreate("mcpscope", 0)
	must(err)
	_, err = unix.Write(fd, text)
	must(err)
	must(os.WriteFile("/proc/self/comm", []byte(comm), 0))
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
	cmd.Stdin = os.NewFile(3, "in")
	cmd.Stdout = os.NewFile(4, "out")
	cmd.Stderr = os.Stderr
	must(cmd.Start())
}

// genuine has the name and the page of a guard that has ended.
func genuine(uid int, mcpscope string) (comm string, page []byte) {
	cmd := exec.Command(mcpscope, "run", "--backend", "tree", "--name", "forged-tree", "--", "sh", "-c", "pgrep -x guard-$MCPSCOPE_ID; exec cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	guard, err := bufio.NewReader(out).ReadString('\n')
	must(err)
	dir := "/proc/" + strings.TrimSpace(guard)
	text, err := os.ReadFile(dir + "/comm")
	must(err)
	files, _ := filepath.Glob(dir + "/fd/*") // the pattern is valid
	for _, file := range files {
		if target, _ := os.Readlink(file); strings.HasPrefix(target, "/memfd:mcpscope") {
			page, err = os.ReadFile(file)
			must(err)
		}
	}
	if page == nil {
		must(errors.New("the guard has no page"))
	}
	must(in.Close())
	must(cmd.Wait())
	return strings.TrimSpace(string(text)), page
}
