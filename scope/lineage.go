//go:build linux

package scope

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
)

// Lineage is the id of a process and of all that it starts, where those are in no group of
// their own: they are found by a mark alone. A server that is run or taken leaves it.
type Lineage string

// NewLineage makes an id.
func NewLineage() (Lineage, error) {
	id, err := newID()
	return Lineage(id), err
}

// Begin makes the calling process the first.
func (l Lineage) Begin() error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	defer unix.Close(self)
	return markOf(string(l)).Put(os.Getpid(), self)
}

// End sends SIGTERM to every process that is left, and SIGKILL after the grace period. Processes of another
// user, and members of a server's group, are left alone.
func (l Lineage) End(grace time.Duration) error {
	_, err := freeze.Stop{Target: markedTree(string(l)), Ask: unix.SIGTERM, Grace: grace}.Run()
	return err
}
