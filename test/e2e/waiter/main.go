// SPDX-License-Identifier: Apache-2.0

// Command waiter starts COMMAND as a client does, and prints what the kernel reports of each of its children, a line
// for each: "child" for COMMAND and the name of any other, then how waitid(2) and wait4(2) describe the change. It
// returns when it has no child.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	subreaper := flag.Bool("subreaper", false, "be a subreaper")
	pause := flag.Bool("pause", false, "when COMMAND has written a line, stop it, continue it, and terminate it")
	flag.Parse()
	if *subreaper {
		check(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	}
	cmd := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	cmd.Stdin = os.Stdin
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	own := cmd.Process.Pid
	var signals []unix.Signal
	if *pause {
		_, err := bufio.NewReader(out).ReadString('\n')
		check(err)
		signals = []unix.Signal{unix.SIGSTOP, unix.SIGCONT, unix.SIGTERM}
	}
	for {
		if len(signals) > 0 {
			check(unix.Kill(own, signals[0])) // our child, and not reaped
			signals = signals[1:]
		}
		if !report(own) {
			return
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "waiter:", err)
		os.Exit(99)
	}
}

// info is the part of siginfo_t that waitid(2) fills in.
type info struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

const changes = unix.WEXITED | unix.WSTOPPED | unix.WCONTINUED

// report waits for the next change of a child, and prints it. It returns false if there is no child.
func report(own int) bool {
	var i info
	err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&i)), changes|unix.WNOWAIT, nil)
	if err == unix.ECHILD {
		return false
	}
	check(err)
	name := "child"
	if int(i.pid) != own {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", i.pid))
		check(err)
		name = strings.TrimSpace(string(text))
	}
	var status unix.WaitStatus
	pid, err := unix.Wait4(int(i.pid), &status, unix.WUNTRACED|unix.WCONTINUED, nil)
	check(err)
	if pid != int(i.pid) {
		check(fmt.Errorf("wait4 returned %d, and waitid %d", pid, i.pid))
	}
	fmt.Printf("%s waitid %d,%d wait4 %#x\n", name, i.code, i.status, uint32(status))
	return true
}
