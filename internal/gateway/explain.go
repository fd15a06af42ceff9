// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// explain appends a line about a child. Arguments are quoted: they may be anything. Of those
// only the first is told, for keys are among the others.
func (w *watcher) explain(pid int, what string, argv []string, why string) {
	if w.Explain < 0 {
		return
	}
	command := "?"
	if len(argv) > 0 {
		command = fmt.Sprintf("%.80q", argv[0])
	}
	line := fmt.Sprintf("%s %d %s %s: %s\n", time.Now().UTC().Format(time.RFC3339), pid, command, what, strings.ReplaceAll(why, "\n", ", "))
	_, _ = unix.Write(w.Explain, []byte(line)) // nobody is there to tell
}
