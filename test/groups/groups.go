// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package groups gives tests directories of cgroups.
package groups

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/test/bed"
)

// Directory is one of the test's own, which ends with it.
func Directory(t *testing.T) *cgroup.Group {
	t.Helper()
	g, err := cgroup.Open(bed.Group(t, "groups"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// Member starts a process that is born in the group, until the test ends, and returns its pid.
func Member(t *testing.T, g *cgroup.Group) int {
	t.Helper()
	cmd := exec.Command("cat")
	if _, err := cmd.StdinPipe(); err != nil { // it ends with the test, whatever happens
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// Guard starts a process with the name of a guard that is born in the group, until the test ends or it is asked to stop, and
// returns its pid.
func Guard(t *testing.T, g *cgroup.Group, called string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", `trap exit WINCH; printf "$1" >/proc/$$/comm; echo; read end`, "sh", called)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // read's status
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
