// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command mcpscope runs an MCP server in a control group of its own. Control groups
// are a feature of Linux.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	const text = "mcpscope: needs Linux with cgroup v2 (this is %s); run it where the MCP servers run\n"
	fmt.Fprintf(os.Stderr, text, runtime.GOOS)
	os.Exit(125)
}
