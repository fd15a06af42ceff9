// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// runtimes are names of processes that run somebody's program, and say nothing of it. Node.js calls its
// main thread MainThread.
var runtimes = []string{"node", "nodejs", "MainThread", "bun", "deno", "electron", "python", "pypy", "ruby", "java", "php", "perl", "dotnet"}

// commandMost is how much of a command line is looked at.
const commandMost = 4096

// clientName is what a client is called by the program that its runtime runs; "" for one whose process has a
// name of its own.
func clientName(pid int) string {
	comm, err := proc.Comm(pid)
	if err != nil || !slices.Contains(runtimes, strings.TrimRight(comm, "0123456789.")) {
		return ""
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	line := make([]byte, commandMost)
	n, _ := f.Read(line) // nothing of a process that has ended
	var argv []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(line[:n], []byte{0}), []byte{0}) {
		argv = append(argv, string(arg))
	}
	if argv[0] == "" {
		return ""
	}
	return name.Derive(argv)
}
