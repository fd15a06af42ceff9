//go:build linux

package scope

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/spawn"
)

// failure turns a failed start into the error that it was in the supervisor.
func (m message) failure(path string) error {
	if spawn.Step(m.Step) == spawn.StepExec {
		return &CommandError{path, unix.Errno(m.Errno)}
	}
	if m.Limit {
		return &LimitError{Text: m.Text, Step: m.Hint}
	}
	if m.Errno != 0 {
		errno := unix.Errno(m.Errno)
		return fmt.Errorf("%s: %w", strings.TrimSuffix(m.Text, ": "+errno.Error()), errno)
	}
	return errors.New(m.Text)
}

// abandon undoes a start that failed.
func (l *launcher) abandon() {
	l.control.close() // the supervisor, if there is one, ends at this
	l.client.close()  // that it failed may be for lack of descriptors
	if l.group == nil {
		return
	}
	_, _ = freeze.Stop{Target: l.group.members()}.Run()
	l.removeGroup()
}

// awaitRemoval waits until the supervisor has gone, and with it who removes the group:
// both hold the other end of the control socket.
func (l *launcher) awaitRemoval() {
	gone := awaitEnd(l.control.in, 0, supervisorGoneWithin) // POLLHUP needs no asking
	if l.subreaper {
		reapAll(func(int, unix.WaitStatus) {}) // nobody else does
	}
	if !gone {
		l.group.killSupervisor() // its payload is gone
	}
	_ = l.group.remove() // it is gone, as a rule; a sweeper removes what can't be removed now
}

// removeGroup removes a group whose supervisor is dead or was never there.
func (l *launcher) removeGroup() {
	l.group.killSupervisor()
	_ = l.group.remove() // a sweeper removes what can't be removed now
}
