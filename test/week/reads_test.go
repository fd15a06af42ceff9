// SPDX-License-Identifier: Apache-2.0

package week

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

var syscr = regexp.MustCompile(`(?m)^syscr: (\d+)$`)

// reads VARIABLE PROGRAM ARGUMENT…: runs the program, and sets the variable to the number of its system calls that read.
// It is the cost of a start that neither load nor the speed of the machine changes.
func reads(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: reads VARIABLE PROGRAM ARGUMENT…")
	}
	cmd := exec.Command("env", append([]string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}, args[1:]...)...)
	cmd.Dir = ts.MkAbs(".")
	ts.Check(cmd.Start())
	pid := cmd.Process.Pid
	// as long as it is not reaped the kernel has its counters, with those of threads that have exited
	waited := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	counters, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	ts.Check(cmd.Wait())
	ts.Check(waited)
	ts.Check(err)
	count := syscr.FindSubmatch(counters)
	if count == nil {
		ts.Fatalf("no syscr in %q", counters)
	}
	ts.Setenv(args[0], string(count[1]))
	ts.Logf("%s is %s", args[0], count[1])
}
