// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) {
	if os.Getenv("INHERIT_PRINT") != "" {
		limit, err := readNoFile()
		fmt.Println(limit.Cur, err)
		os.Exit(0)
	}
	bed.Beside(m.Run)
}

// The soft limit is the one that we were started with, not the one that package
// syscall raised it to.
func TestNoFile(t *testing.T) {
	for _, limit := range []string{"77", "1024"} {
		cmd := exec.Command("/bin/sh", "-c", `ulimit -S -n "$0"; exec "$1"`, limit, os.Args[0])
		cmd.Env = append(os.Environ(), "INHERIT_PRINT=1")
		out, err := cmd.Output()
		if err != nil || string(out) != limit+" <nil>\n" {
			t.Errorf("started with a soft limit of %s, found %q (%v)", limit, out, err)
		}
	}
}
