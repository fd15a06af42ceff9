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
	if out, err := exec.Command("journalctl", "--flush").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("flush the journal: %w: %s", err, out)
	}
	for _, u := range []User{Tester, NoLinger} {
		if out, err := (&Host{}).Command(u, "logger", "the first").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("write to the journal of %s: %w: %s", u.Name, err, out)
		}
	}
	if out, err := exec.Command("journalctl", "--sync").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("synchronize the journal: %w: %s", err, out)
	}
	return nil, nil
}
