// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
)

// nodeThread is the name of the main thread of Node.js.
const nodeThread = "MainThread"

// clientCommandMost is the number of bytes that are read of a command line.
const clientCommandMost = 4096

// ClientName is the name of the program that a client's runtime runs; "" for a client whose process has its
// own name.
func ClientName(pid int) string {
	comm, err := proc.Comm(pid)
	if err != nil || comm != nodeThread && name.KindOf(comm) != name.Interpreter {
		return ""
	}
	argv := proc.Arguments(pid, clientCommandMost)
	if len(argv) == 0 || argv[0] == "" {
		return ""
	}
	return name.Derive(argv)
}
