// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// fresh opens a new group of the test's own.
func fresh(t *testing.T) *Group {
	t.Helper()
	g, err := Open(bed.Group(t, "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// start runs a command born in g until the end of the test.
func start(t *testing.T, g *Group, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// nest makes depth directories, each in the last, and returns the deepest.
func nest(t *testing.T, g *Group, depth int) *Group {
	t.Helper()
	for range depth {
		below, err := g.Mkdir("d", 0o700)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(g.path, "/d") { // the caller's own stays open
			_ = g.Close()
		}
		g = below
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// Plain directories look like groups on a cgroup v1 host, where they contain nothing.
func TestOpenRefusesOtherFileSystems(t *testing.T) {
	if g, err := Open(os.TempDir()); err == nil {
		t.Fatalf("opened %s, which is no cgroup", g)
	}
}
