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
	fmt.Fprintf(os.Stderr, "mcpscope: needs Linux with cgroup v2 (this is %s); run it where the MCP servers run\n", runtime.GOOS)
	os.Exit(125)
}
