// SPDX-License-Identifier: Apache-2.0

package host

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// until waits for what no event covers.
func until(limit time.Duration, done func() bool) bool {
	for deadline := pace.Now().Add(limit); !done(); _, _ = unix.Poll(nil, 10) {
		if pace.Until(deadline) <= 0 {
			return false
		}
	}
	return true
}
