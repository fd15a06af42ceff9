// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// explanations has a line about each child of a gateway (--explain).
type explanations struct {
	fd int // -1 without --explain
}

// write appends a line about a child. Arguments are quoted: they may be anything. Only the first of them is
// written, for keys are among the others.
func (e explanations) write(pid int, outcome string, argv []string, why string) {
	if e.fd < 0 {
		return
	}
	command := "?"
	if len(argv) > 0 {
		command = fmt.Sprintf("%.80q", argv[0])
	}
	now := time.Now().UTC().Format(time.RFC3339)
	why = strings.ReplaceAll(why, "\n", ", ")
	line := fmt.Sprintf("%s %d %s %s: %s\n", now, pid, command, outcome, why)
	ready := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(ready, 0)
	if err != nil || n == 0 { // a program waits for its execve: better a line less than to wait for a reader
		return
	}
	_, _ = unix.Write(e.fd, []byte(line)) // stderr is the gateway's: no place is left for an error
}
