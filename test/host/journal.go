// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"os/exec"
)

// JournalOnDisk is a setup that gives each user a journal of their own, which a journal in /run
// has not. It is made for the first entry.
func JournalOnDisk() (undo func(), err error) {
	if err := os.MkdirAll("/var/log/journal", 0o755); err != nil {
		return nil, err
	}
	h := &Host{}
	for _, cmd := range []*exec.Cmd{
		h.Command(Root, "journalctl", "--flush"),
		h.Command(Tester, "logger", "the first"),
		h.Command(NoLinger, "logger", "the first"),
		h.Command(Root, "journalctl", "--sync"),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%q: %w: %s", cmd.Args, err, out)
		}
	}
	return nil, nil
}
