// SPDX-License-Identifier: Apache-2.0

// Package guest runs in a virtual machine alone (see ../boot). It says what the machine has to be, so that what other
// tests show there is shown of that kernel and that systemd, and has a server on each backend.
package guest

import (
	"fmt"
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/test/host"
)

// suite is the machine's, as ../boot takes it. Elsewhere there is none.
var suite = os.Getenv("VM_SUITE")

var mcpscope = host.Shared + "/mcpscope"

func TestMain(m *testing.M) {
	if suite == "" {
		fmt.Println("not in a virtual machine: make test-vm")
		os.Exit(0)
	}
	host.Main(m, host.Options{})
}
