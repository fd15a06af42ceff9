// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
)

// nodeThread is the name of the main thread of Node.js.
const nodeThread = "MainThread"

// commandMost is the number of bytes that are read of a command line.
const commandMost = 4096

// clientName is the name of the program that a client's runtime runs; "" for a client whose process has its
// own name.
func clientName(pid int) string {
	comm, err := proc.Comm(pid)
	if err != nil || comm != nodeThread && name.KindOf(comm) != name.Interpreter {
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
