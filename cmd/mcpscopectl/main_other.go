// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command mcpscopectl manages MCP servers in control groups, which are a feature of Linux.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "mcpscope: needs Linux with cgroup v2 (this is %s); "+
		"run it where the MCP servers run\n", runtime.GOOS)
	os.Exit(125)
}
