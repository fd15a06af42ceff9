// SPDX-License-Identifier: Apache-2.0

package group

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/groups"
)

// A manager puts a guard into its scope, where it goes on into a leaf. Whoever looks meanwhile finds it.
func TestGuardOnItsWay(t *testing.T) {
	const id = "way23456"
	top := groups.Directory(t)
	leaf, err := top.Mkdir(names.GuardsName, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = leaf.Close()
		_ = top.Remove(names.GuardsName)
	})
	payload, err := top.Mkdir("payload", 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = payload.Close()
		_ = top.Remove("payload")
	})
	pid := calledGuard(t, top, names.GuardPrefix+id)
	guard := (&ControlGroup{Placed: protocol.Placed{ID: id, Managed: true}, Payload: payload}).Guard()
	for round := range 200 {
		if err := top.Take(pid); err != nil {
			t.Fatal(err)
		}
		moved := make(chan error)
		go func() { moved <- leaf.Take(pid) }()
		for range 4 {
			if found, _ := guard.PIDInScope(); found != pid {
				t.Fatalf("round %d: the guard %d is not found: %d", round, pid, found)
			}
		}
		if err := <-moved; err != nil {
			t.Fatal(err)
		}
	}
}

// calledGuard is a process with that name, until the test ends.
func calledGuard(t *testing.T, in *cgroup.Group, called string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", `printf "$1" >/proc/$$/comm; echo; read end`, "sh", called)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: in.FD()}
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
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // read's status
	})
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
