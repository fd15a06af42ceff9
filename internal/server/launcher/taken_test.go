// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A server of the watcher before has no guard of its own, so nothing waits for the end of one. The control
// waits as long as such an end may take.
func TestDismissOfNoGuard(t *testing.T) {
	control := make(chan struct{})
	go func() {
		linux.AwaitEnd(-1, unix.POLLIN, protocol.ReactWithin)
		close(control)
	}()
	dismissGuard(noGuard(nil))
	select {
	case <-control:
		t.Errorf("it took %v", protocol.ReactWithin)
	default:
	}
}
