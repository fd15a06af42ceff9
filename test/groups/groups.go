// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package groups gives tests directories of cgroups.
package groups

import (
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
