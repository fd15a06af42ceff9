// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"runtime"
)

// A gateway is executed by the process's first thread: what yama was told of it is lost otherwise.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "gateway" {
		runtime.LockOSThread()
	}
}
