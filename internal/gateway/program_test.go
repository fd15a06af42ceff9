// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A gateway can be the first process of a container, and the client of its servers.
func TestClientIsTheFirstProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a pid namespace takes root")
	}
	if os.Getpid() != 1 {
		inside := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
		if out, err := inside.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("cat")
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer stdin.Close()
	pid := server.Process.Pid
	gateway := &starter{}
	gateway.PID = 1
	p := program{pid: pid, stdin: fileAt(pid, 0), stdout: fileAt(pid, 1), client: gateway}
	if !p.hasClientAbove() {
		t.Error("the first process is not found as the client of its child")
	}
}
