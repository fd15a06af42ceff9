// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const leaderEnv = "PROC_TEST_LEADER_EXITS"

// In its second life the test is a process whose first thread has exited, until the end of stdin.
func init() {
	if os.Getenv(leaderEnv) == "" {
		return
	}
	runtime.LockOSThread() // an init function is in the first thread
	go func() {
		for st, err := ReadStat(os.Getpid()); err != nil || st.State != 'Z'; st, err = ReadStat(os.Getpid()) {
			runtime.Gosched()
		}
		_, _ = os.Stdout.WriteString("x")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

func TestEachDescriptor(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), leaderEnv+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}()
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{os.Getpid(), cmd.Process.Pid} {
		var numbers []int
		err := EachDescriptor(pid, func(number int, link string) bool {
			numbers = append(numbers, number)
			if _, err := os.Readlink(link); err != nil {
				t.Error(err)
			}
			return number < 2
		})
		if err != nil || !slices.Equal(numbers, []int{0, 1, 2}) {
			t.Errorf("process %d has %v, %v", pid, numbers, err)
		}
	}
	if err := EachDescriptor(1<<30, func(int, string) bool { return true }); err == nil {
		t.Error("no error for a process that does not exist")
	}
}
